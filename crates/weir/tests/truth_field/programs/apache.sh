# apache2 with worker processes: PORT, EXTRA lines of its configuration.
mkdir -p "$DIR/apache"
modules=/usr/lib/apache2/modules
cat >"$DIR/apache/apache.conf" <<END
ServerRoot $DIR/apache
ServerName localhost
PidFile $DIR/apache/pid
ErrorLog $DIR/apache/error.log
DefaultRuntimeDir $DIR/apache
Mutex file:$DIR/apache default
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule env_module $modules/mod_env.so
LoadModule proxy_module $modules/mod_proxy.so
LoadModule proxy_http_module $modules/mod_proxy_http.so
LoadModule ratelimit_module $modules/mod_ratelimit.so
User nobody
Group nogroup
StartServers 1
MaxKeepAliveRequests 0
Listen ${PORT:-8080}
DocumentRoot $WWW
$EXTRA
END
exec apache2 -f "$DIR/apache/apache.conf" -DFOREGROUND
