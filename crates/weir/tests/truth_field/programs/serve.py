"""HTTP/1.1 server: serve.py PORT. GET /NAME answers with that many bytes (100k, 5M); bodies of requests are read.

PAUSE seconds before each answer, RATE bytes per second of an answer, PIECE bytes a write, BURN seconds of a core for
each piece, HEAD=apart writes head and body apart, NODELAY=0 leaves Nagle on, SNDBUF, RCVBUF, FSYNC=FILE stores what is
sent in, BACKLOG, READ_RATE of request bodies, DEAF=1 never says 100 Continue, SHUT seconds before the first accept,
TLS=FOLDER of cert.pem and key.pem, GREET seconds before a handshake is answered."""
import os, socket, ssl, sys, threading, time

env = lambda name, kind=float, default=0: kind(os.environ.get(name) or default)
PAUSE, RATE, BURN, READ_RATE = env("PAUSE"), env("RATE"), env("BURN"), env("READ_RATE")
PIECE, SNDBUF, BACKLOG = env("PIECE", int, 65536), env("SNDBUF", int), env("BACKLOG", int, 128)
RCVBUF, GREET = env("RCVBUF", int), env("GREET")
NODELAY, APART = env("NODELAY", int, 1), os.environ.get("HEAD") == "apart"
FSYNC = os.environ.get("FSYNC")
TLS = None
if os.environ.get("TLS"):
    TLS = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    TLS.load_cert_chain(os.environ["TLS"] + "/cert.pem", os.environ["TLS"] + "/key.pem")


def size(name):
    return int(float(name[:-1]) * {"k": 1e3, "M": 1e6}[name[-1]]) if name[-1] in "kM" else int(name)


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def body(connection, count):
    piece, sent, begun = b"x" * PIECE, 0, time.time()
    while sent < count:
        if BURN:
            burn(BURN)
        connection.sendall(piece[: min(PIECE, count - sent)])
        sent += PIECE
        if RATE:
            time.sleep(max(0, begun + sent / RATE - time.time()))


def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, NODELAY)
    if TLS:
        time.sleep(GREET)
        connection = TLS.wrap_socket(connection, server_side=True)
    text = b""
    out = open(FSYNC, "wb", buffering=0) if FSYNC else None
    while True:
        while b"\r\n\r\n" not in text:
            more = connection.recv(65536)
            if not more:
                return
            text += more
        head, text = text.split(b"\r\n\r\n", 1)
        words = head.decode().split()
        fields = head.decode().lower().split("\r\n")
        wanted = [line.split(":")[1] for line in fields if line.startswith("content-length:")]
        if b"100-continue" in head and not os.environ.get("DEAF"):
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        owed, begun, got = int(wanted[0]) if wanted else 0, time.time(), 0
        while owed:
            # What came with the head may run on into the next request.
            more = text[:owed] or connection.recv(min(owed, 65536))
            text = text[owed:]
            if not more:
                return
            owed -= len(more)
            got += len(more)
            if out:
                out.write(more)
                os.fsync(out.fileno())
            if BURN:
                burn(BURN)
            if READ_RATE:
                time.sleep(max(0, begun + got / READ_RATE - time.time()))
        if PAUSE:
            time.sleep(PAUSE)
        count = size(words[1].lstrip("/").split("?")[0] or "0") if words[0] == "GET" else 2
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % count
        if APART:
            connection.sendall(head)
            body(connection, count)
        elif count <= 4096:
            connection.sendall(head + b"x" * count)
        else:
            connection.sendall(head)
            body(connection, count)


def main():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if SNDBUF:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SNDBUF)
    if RCVBUF:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RCVBUF)
    listener.bind(("", int(sys.argv[1])))
    listener.listen(BACKLOG)
    # A server that is busy elsewhere lets its queue fill with other callers.
    if env("SHUT"):
        crowd = []
        for _ in range(BACKLOG + 1):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
            crowd.append(caller)
        time.sleep(env("SHUT"))
        for caller in crowd:
            caller.close()
    while True:
        connection = listener.accept()[0]
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


main()
