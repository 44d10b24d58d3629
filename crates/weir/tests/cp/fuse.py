"""A file system in memory that misbehaves: `fuse.py FOLDER HOW COMMAND...` mounts it on FOLDER and runs
COMMAND.

HOW is `quota`: it takes every write, and answers EDQUOT when a file is closed or synced; or `kills`: it
kills whoever is the first to sync a file, with all that belongs to it. Exits as COMMAND does; 77 where there
is no FUSE. include/uapi/linux/fuse.h has the numbers and the forms.
"""
import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
import threading

folder, how, command = sys.argv[1], sys.argv[2], sys.argv[3:]
libc = ctypes.CDLL(None, use_errno=True)
try:
    device = os.open("/dev/fuse", os.O_RDWR)
except OSError:
    sys.exit(77)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if libc.mount(b"none", folder.encode(), b"fuse.weir", 0, options):
    sys.exit(77)

FORGET, INTERRUPT, BATCH_FORGET = 2, 36, 42
nodes = {1: {"mode": 0o40755, "data": bytearray(), "names": {}, "time": (0, 0)}}
killed = False


def attributes(number):
    node = nodes[number]
    size, (seconds, nanos) = len(node["data"]), node["time"]
    times = (0, seconds, 0, 0, nanos, 0)
    return struct.pack("<6Q10I", number, size, -(-size // 512), *times, node["mode"], 1, 0, 0, 0, 4096, 0)


def entry(number):
    return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + attributes(number)


def make(parent, name, mode):
    number = max(nodes) + 1
    nodes[number] = {"mode": mode, "data": bytearray(), "names": {}, "time": (1, 0)}
    nodes[parent]["names"][name] = number
    return number


def listing(names, at, room):
    listed = b""
    for next_at, (name, number) in enumerate(names[at:], at + 1):
        one = struct.pack("<QQII", number, next_at, len(name), nodes[number]["mode"] >> 12) + name
        one += bytes(-len(one) % 8)
        if len(listed) + len(one) > room:
            break
        listed += one
    return listed


def set_attributes(number, asked):
    valid, _, _, size, _, _, seconds, _, _, nanos, _, mode = struct.unpack("<II6Q4I", asked[:72])
    node = nodes[number]
    if valid & 1:
        node["mode"] = node["mode"] & 0o170000 | mode & 0o7777
    if valid & 8:
        node["data"] = node["data"][:size].ljust(size, b"\0")
    if valid & 32:
        node["time"] = (seconds, nanos)
    return struct.pack("<QII", 0, 0, 0) + attributes(number)


def settle(process, of_all):
    global killed
    if how == "quota":
        raise OSError(errno.EDQUOT, "")
    if of_all and not killed:
        killed = True
        os.kill(process, signal.SIGKILL)
    return b""


def answer(operation, number, process, asked):
    names = nodes[number]["names"] if number else {}
    match operation:
        case 1:  # LOOKUP
            return entry(names[asked.rstrip(b"\0")])
        case 3:  # GETATTR
            return struct.pack("<QII", 0, 0, 0) + attributes(number)
        case 4:  # SETATTR
            return set_attributes(number, asked)
        case 9:  # MKDIR
            return entry(make(number, asked[8:].rstrip(b"\0"), 0o40755))
        case 10 | 11:  # UNLINK, RMDIR
            del names[asked.rstrip(b"\0")]
            return b""
        case 12 | 45:  # RENAME, RENAME2
            old, new = asked[8 if operation == 12 else 16 :].split(b"\0")[:2]
            nodes[struct.unpack("<Q", asked[:8])[0]]["names"][new] = names.pop(old)
            return b""
        case 14 | 27:  # OPEN, OPENDIR
            return struct.pack("<QII", number, 0, 0)
        case 15:  # READ
            _, at, size = struct.unpack("<QQI", asked[:20])
            return bytes(nodes[number]["data"][at : at + size])
        case 16:  # WRITE
            _, at, size = struct.unpack("<QQI", asked[:20])
            data = nodes[number]["data"]
            data.extend(bytes(max(0, at + size - len(data))))
            data[at : at + size] = asked[40 : 40 + size]
            return struct.pack("<II", size, 0)
        case 17:  # STATFS
            return struct.pack("<5Q4I6I", *[1 << 20] * 5, 4096, 255, 4096, 0, *[0] * 6)
        case 18 | 29:  # RELEASE, RELEASEDIR
            return b""
        case 20:  # FSYNC, with 1 of the data alone
            return settle(process, struct.unpack("<QI", asked[:12])[1] & 1 == 0)
        case 25:  # FLUSH
            return settle(process, False)
        case 26:  # INIT
            return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 12, 9, 1 << 17, 1, 32, 0, *[0] * 8)
        case 28:  # READDIR
            _, at, size = struct.unpack("<QQI", asked[:20])
            return listing(list(names.items()), at, size)
        case 35:  # CREATE
            _, mode, _, _ = struct.unpack("<4I", asked[:16])
            number = make(number, asked[16:].rstrip(b"\0"), mode)
            return entry(number) + struct.pack("<QII", number, 0, 0)
    raise OSError(errno.ENOSYS, "")


def serve():
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            continue
        _, operation, request_id, number, _, _, process, _ = struct.unpack("<IIQQIIII", request[:40])
        if operation in (FORGET, INTERRUPT, BATCH_FORGET):
            continue
        failed, answered = 0, b""
        try:
            answered = answer(operation, number, process, request[40:])
        except KeyError:
            failed = errno.ENOENT
        except OSError as error:
            failed = error.errno
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(answered), -failed, request_id) + answered)
        except OSError:
            pass  # whoever asked is gone


threading.Thread(target=serve, daemon=True).start()
code = subprocess.run(command, check=False).returncode
sys.stdout.flush()
os._exit(code if code >= 0 else 128 - code)
