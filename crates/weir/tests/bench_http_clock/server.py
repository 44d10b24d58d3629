"""A server whose answers are slow for a cause: `server.py HOST CAUSE [NUMBER]` prints its port.

A thread for each connection, or with `forks` a process. NUMBER is milliseconds, or the request after which something happens.
"""
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time

host, cause = sys.argv[1], sys.argv[2]
number = float(sys.argv[3]) if len(sys.argv) > 3 else 0
requests = itertools.count(1)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def compute(milliseconds):
    end = time.thread_time() + milliseconds / 1000
    while time.thread_time() < end:
        pass


def answer(peer):
    late = next(requests) == number and cause in ("stops", "dies", "stalls")
    if cause == "sleeps":
        time.sleep(number / 1000)
    elif cause in ("computes", "forks"):
        compute(number)
    elif late and cause == "dies":
        os._exit(1)
    elif late:
        if cause == "stalls":
            subprocess.Popen(["sh", "-c", "sleep 1.5; kill -CONT %d" % os.getpid()])
        os.kill(os.getpid(), signal.SIGSTOP)
    if cause in ("splits", "pauses"):
        peer.sendall(HEAD % 2)
        if cause == "pauses":
            time.sleep(number / 1000)
        peer.sendall(b"ok")
    elif cause == "drips":
        # At an even pace of its own, 2 MB/s.
        peer.sendall(HEAD % 200_000)
        for _ in range(20):
            time.sleep(0.005)
            peer.sendall(b"x" * 10_000)
    elif cause == "large":
        peer.sendall(HEAD % 200_000 + b"x" * 200_000)
    elif cause == "chunks":
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
    else:
        peer.sendall(HEAD % 2 + b"ok")


def serve(peer):
    if cause != "splits":
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            asked = b""
            while not asked.endswith(b"\r\n\r\n"):
                piece = peer.recv(65536)
                if not piece:
                    return
                asked += piece
            answer(peer)
    except OSError:
        pass
    finally:
        peer.close()


listener = socket.create_server((host, 0), backlog=512)
print(listener.getsockname()[1], flush=True)
# Children that nobody waits for.
signal.signal(signal.SIGCHLD, signal.SIG_IGN if cause == "forks" else signal.SIG_DFL)
while True:
    peer = listener.accept()[0]
    if cause != "forks":
        threading.Thread(target=serve, args=(peer,), daemon=True).start()
    elif os.fork() == 0:
        listener.close()
        serve(peer)
        os._exit(0)
    else:
        peer.close()
