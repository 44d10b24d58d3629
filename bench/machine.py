"""This machine: its memory made ready, its processors counted, its processes ended, and what of it figures depend on."""

import ctypes
import mmap
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from outputs import tree
from settings import BALLOON, MEMORY, MIB, ROOT, WEIR, WORK


def warm(paths: list) -> None:
    """Into the page cache: the disk under the source is not what is compared."""
    buffer = bytearray(MIB)
    for path in paths:
        names = [name for name, (size, _) in tree(path).items() if size is not None] if path.is_dir() else ["."]
        for file in (path / name for name in names):
            with open(file, "rb", buffering=0) as source:
                while source.readinto(buffer):
                    pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def touch_free_memory(size: int) -> None:
    """Has the host back the memory that the next run will fill.

    A guest whose balloon reports free pages loses them about two seconds after they are freed, and pays several microseconds, as its
    own system time, for each page it touches again: the same loop took 1.1 s or 7.4 s for 2 GiB, by who had run before and when
    its file was removed. Touched right before each run, `size` bytes (six times what the run writes: the allocator picks from all
    free memory) make the first contestant and the last equal.
    """
    free = int(re.search(r"MemFree:\s*(\d+)", Path("/proc/meminfo").read_text()).group(1)) * 1024
    huge = 2 * MIB
    length = min(size, free - 2**31) // huge * huge  # 2 GiB stay for everyone else
    if length <= 0:
        return
    with mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        try:
            memory.madvise(23)  # MADV_POPULATE_WRITE, Linux 5.14
        except OSError:
            for offset in range(0, length, mmap.PAGESIZE):
                memory[offset] = 1


def wait_for_listener(process: subprocess.Popen, port: int) -> None:
    """Until something in the process's network listens on `port`: asking by a connection would be taken for the sender."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                # 0A is TCP_LISTEN (include/net/tcp_states.h).
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    return
        time.sleep(0.005)
    raise RuntimeError(f"nothing listens on port {port}: {process.args}")


def die_with_parent() -> None:
    """PR_SET_PDEATHSIG, so that even a killed benchmark leaves no server behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def machine_cpu_seconds() -> float:
    """What all processors did so far, idle and waiting for disks apart."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def end(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_group(process: subprocess.Popen) -> None:
    """All of a process group that this benchmark began, its leader's children too."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def program_of(name: str) -> str:
    """A program, or its own binary where what PATH finds is the script of a Python wheel: Python's start is not the mover's time."""
    found = shutil.which(name)
    if not found:
        return name
    with open(found, "rb") as script:
        start = script.readline(1000)
    if not start.startswith(b"#!"):
        return found
    ask = f"import os, {name}; print(os.path.join(os.path.dirname({name}.__file__), 'bin', '{name}'))"
    binary = subprocess.run([start[2:].decode().strip(), "-c", ask], capture_output=True, text=True).stdout.strip()
    return binary if os.access(binary, os.X_OK) else found


def compile_tools(*names: str) -> None:
    for name in names:
        source, binary = ROOT / "bench" / f"{name}.c", WORK / name
        if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["cc", "-O2", "-Wall", "-o", str(binary), str(source)], check=True)


# --- in words, without names
# --------------------------------------------------------------------------------------------------


def read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        return f"not readable: {error.strerror}"


def first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError:
        return "not installed"
    return ((done.stdout or done.stderr).strip().splitlines() or ["says nothing"])[0]


def machine() -> dict:
    """What figures depend on, by name."""
    processor = re.search(r"model name\s*:\s*(.*)", read("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", read("/proc/meminfo"))
    tcp = "/proc/sys/net/ipv4/tcp_"
    return {
        "kernel": platform.release(),
        "processor": f"{processor.group(1) if processor else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs",
        "memory": f"{int(memory.group(1)) // 1024} MiB" if memory else "unknown",
        "load at the start": read("/proc/loadavg").rsplit(" ", 2)[0],
        "file system": file_system(WORK),
        "tcp congestion control": read(tcp + "congestion_control"),
        "tcp_rmem": " ".join(read(tcp + "rmem").split()),
        "tcp_wmem": " ".join(read(tcp + "wmem").split()),
        "dirty ratios": f"{read('/proc/sys/vm/dirty_background_ratio')} / {read('/proc/sys/vm/dirty_ratio')}",
        "weir": first_line(str(WEIR), "--version"),
        "openssl": first_line("openssl", "version"),
        "python": platform.python_version(),
        "free memory": f"measured as {' and '.join(MEMORY)}; the host {'takes it back (virtio balloon)' if BALLOON else 'leaves it here'}",
    }


def file_system(path: Path) -> str:
    """Type and options of the mount that holds `path`."""
    best, found = -1, "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        mount = before.split()[4]
        if path.is_relative_to(mount) and len(mount) >= best:
            best, found = len(mount), f"{after.split()[0]} ({before.split()[5]})"
    return found
