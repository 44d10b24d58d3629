# An ssh server on port 2222 for the key in $DIR/key (root only).
ssh-keygen -q -t ed25519 -N "" -f "$DIR/host"
ssh-keygen -q -t ed25519 -N "" -f "$DIR/key"
mkdir -p /run/sshd
chmod 755 "$DIR"
cp "$DIR/key.pub" "$DIR/authorized"
chmod 600 "$DIR/authorized" "$DIR/key"
exec /usr/sbin/sshd -D -e -f /dev/null -p 2222 -h "$DIR/host" -o AuthorizedKeysFile="$DIR/authorized" -o StrictModes=no \
    -o UsePAM=no -o PidFile=none -o PermitRootLogin=yes -o Subsystem="sftp internal-sftp"
