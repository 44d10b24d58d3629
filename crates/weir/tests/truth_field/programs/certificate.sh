# A certificate for server.test: $DIR/cert.pem, $DIR/key.pem.
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=server.test -keyout "$DIR/key.pem" -out "$DIR/cert.pem" \
    2>"$DIR/openssl.log"
