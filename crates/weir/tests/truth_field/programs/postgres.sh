# A PostgreSQL server on port 5432 that trusts everyone, with a table of 20,000 rows. The server refuses to
# run as root.
mkdir -p "$DIR/pg"
cat >"$DIR/pg.sh" <<'END'
initdb -D "$DIR/pg/data" -A trust -U postgres --no-sync >/dev/null
echo "host all all 10.200.0.0/24 trust" >>"$DIR/pg/data/pg_hba.conf"
echo "create table rows as select n, repeat('x', 200) as pad from generate_series(1, 20000) n; alter table rows add primary key (n);" |
    postgres --single -j -D "$DIR/pg/data" -c fsync=off postgres >/dev/null
exec postgres -D "$DIR/pg/data" -c fsync=off -c listen_addresses='*' -c unix_socket_directories="$DIR/pg"
END
if [ "$(id -u)" = 0 ]; then
    chown 65534:65534 "$DIR/pg"
    exec setpriv --reuid 65534 --regid 65534 --clear-groups sh "$DIR/pg.sh"
fi
exec sh "$DIR/pg.sh"
