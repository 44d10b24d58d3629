# nginx as one process: PORT, NAME of its files, LISTEN (options of listen), SERVER and HTTP (lines of that
# block).
NAME=${NAME:-nginx}
mkdir -p "$DIR/$NAME"
cat >"$DIR/$NAME/nginx.conf" <<END
daemon off;
master_process off;
pid $DIR/$NAME/pid;
error_log $DIR/$NAME/error.log;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    keepalive_requests 100000;
    client_max_body_size 0;
    client_body_temp_path $DIR/$NAME/body;
    proxy_temp_path $DIR/$NAME/proxy;
    fastcgi_temp_path $DIR/$NAME/fastcgi;
    uwsgi_temp_path $DIR/$NAME/uwsgi;
    scgi_temp_path $DIR/$NAME/scgi;
    $HTTP
    server {
        listen ${PORT:-8080} $LISTEN;
        root $WWW;
        $SERVER
    }
}
END
exec nginx -c "$DIR/$NAME/nginx.conf" -e "$DIR/$NAME/error.log"
