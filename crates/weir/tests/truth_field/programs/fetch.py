"""HTTP/1.1 client on one kept connection: fetch.py HOST PORT NAME COUNT.

THINK seconds asleep between answers, BURN seconds of a core between them, LOCK=1 waits for a lock of another thread
instead, CHILD=1 for a child; RCVBUF, SNDBUF; READ bytes a read and REST seconds after each; POST bytes sent with each
request, SPLIT=1 head and body in two writes; NODELAY=1; DEEP requests at a time (pipelined); STORE=FILE keeps what is
read, FSYNC=1 after each read."""
import os, socket, subprocess, sys, threading, time

env = lambda name, kind=float, default=0: kind(os.environ.get(name) or default)
THINK, BURN, REST = env("THINK"), env("BURN"), env("REST")
READ, POST, DEEP = env("READ", int, 1 << 20), env("POST", int), env("DEEP", int, 1)
NAME, COUNT = sys.argv[3], int(sys.argv[4])
STORE = os.environ.get("STORE")


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def rest():
    if env("LOCK", int):
        lock = threading.Lock()
        lock.acquire()
        threading.Timer(THINK, lock.release).start()
        lock.acquire()
    elif env("CHILD", int):
        subprocess.run(["sleep", str(THINK)])
    elif THINK:
        time.sleep(THINK)
    if BURN:
        burn(BURN)


class Client:
    def __init__(self):
        self.socket = socket.socket()
        if env("RCVBUF", int):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, env("RCVBUF", int))
        if env("SNDBUF", int):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, env("SNDBUF", int))
        self.socket.connect((sys.argv[1], int(sys.argv[2])))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, env("NODELAY", int))
        self.text = b""
        self.out = open(STORE, "wb", buffering=0) if STORE else None

    def ask(self):
        if not POST:
            self.socket.sendall(b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % NAME.encode())
            return
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % POST
        if env("SPLIT", int):
            self.socket.sendall(head)
            self.socket.sendall(b"y" * POST)
        else:
            self.socket.sendall(head + b"y" * POST)

    def more(self, most):
        piece = self.socket.recv(most)
        if not piece:
            sys.exit("the server hung up")
        if self.out:
            self.out.write(piece)
            if env("FSYNC", int):
                os.fsync(self.out.fileno())
        if REST:
            time.sleep(REST)
        return piece

    def take(self):
        while b"\r\n\r\n" not in self.text:
            piece = self.socket.recv(65536)
            if not piece:
                sys.exit("the server hung up")
            self.text += piece
        head, self.text = self.text.split(b"\r\n\r\n", 1)
        fields = head.lower().split(b"\r\n")
        owed = int([line.split(b":")[1] for line in fields if line.startswith(b"content-length:")][0])
        use = min(owed, len(self.text))
        self.text = self.text[use:]
        owed -= use
        while owed:
            owed -= len(self.more(min(owed, READ)))


def main():
    client, asked = Client(), 0
    for done in range(COUNT):
        while asked < min(COUNT, done + DEEP):
            client.ask()
            asked += 1
        client.take()
        rest()


main()
