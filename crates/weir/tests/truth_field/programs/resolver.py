"""A resolver: resolver.py ADDRESS. Answers every question for an A record with ADDRESS, after WAIT seconds; LOSE=1
loses the first question for each name; SILENT=1 answers nothing."""
import os, socket, sys, threading, time

door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
door.bind(("", 53))
known = set()


def answer(question, asker):
    time.sleep(float(os.environ.get("WAIT") or 0))
    name_end = question.index(b"\0", 12) + 1
    kind = question[name_end : name_end + 2]
    head = question[:2] + b"\x81\x80" + b"\0\1" + (b"\0\1" if kind == b"\0\1" else b"\0\0") + b"\0\0\0\0"
    record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(sys.argv[1])
    door.sendto(head + question[12 : name_end + 4] + (record if kind == b"\0\1" else b""), asker)


while True:
    question, asker = door.recvfrom(512)
    if os.environ.get("SILENT"):
        continue
    if os.environ.get("LOSE") and question[12:] not in known:
        known.add(question[12:])
        continue
    threading.Thread(target=answer, args=(question, asker), daemon=True).start()
