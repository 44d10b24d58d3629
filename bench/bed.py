"""Where copies run: a near and a far end with a real sshd, on loopback, over a shaped link, or over a path of `weir lab`.

A link's ends are two network namespaces without names, each held by one sleeping process: when that ends, however the
benchmark ends, namespace and interfaces are gone. Nothing of the machine's own network is touched.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Optional

from machine import die_with_parent, end, free_port
from settings import MB, WEIR, WORK

NEAR, FAR = "10.201.0.1", "10.201.0.2"
# Of each frame's 1514 bytes, as tbf counts them, 1448 are TCP's payload (timestamps on).
PAYLOAD = 1448 / 1514


class Bed:
    """Two ends and the way from one to the other. `host` is what ssh calls the far end, `address` where it is."""

    host = "far"

    def __init__(self, address: str) -> None:
        self.address = address
        self.port = 22
        self.folder = WORK / "ssh"
        self.config = self.folder / "ssh_config"
        self.processes = []

    def at_near(self) -> list:
        return []

    def at_far(self) -> list:
        return []

    def traffic(self) -> Optional[tuple]:
        return None

    def stop(self) -> None:
        while self.processes:
            end(self.processes.pop())

    def spawn(self, argv: list, **more) -> subprocess.Popen:
        process = subprocess.Popen(argv, preexec_fn=die_with_parent, **more)
        self.processes.append(process)
        return process

    def start_sshd(self, port: int) -> None:
        """With keys and a configuration of its own, made on the spot; for this user alone."""
        self.port = port
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "bin").mkdir(parents=True)
        self.folder.chmod(0o700)
        here = self.folder
        for key in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", here / key], check=True)
        (here / "bin" / "weir").symlink_to(WEIR)
        # What this user's shell reads at its start is no part of a copy, and on some machines takes as long
        # as the login.
        (here / "home").mkdir()
        # Privilege separation wants this folder; whoever runs as root may make it.
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        sftp = next((path for path in SFTP_SERVERS if Path(path).exists()), "internal-sftp")
        (here / "sshd_config").write_text(
            f"Port {port}\nListenAddress {self.address}\nHostKey {here}/host_key\nAuthorizedKeysFile {here}/key.pub\n"
            "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            f"PermitRootLogin yes\nMaxStartups 200\nLogLevel ERROR\nUseDNS no\nSubsystem sftp {sftp}\n"
            f"SetEnv HOME={here}/home XDG_CACHE_HOME={here}/cache PATH={here}/bin:{os.environ['PATH']}\n"
        )
        self.config.write_text(
            f"Host {self.host} {self.address}\n HostName {self.address}\n Port {port}\n IdentityFile {here}/key\n IdentitiesOnly yes\n"
            f" UserKnownHostsFile {here}/known\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n BatchMode yes\n"
        )
        # The guard ends sessions too, which outlive their sshd. sshd wants to be called by its whole path.
        command = [WEIR, "lab", "guard", "--", shutil.which("sshd"), "-D", "-e", "-f", here / "sshd_config"]
        log = here / "sshd.log"
        self.spawn([*self.at_far(), *command], stdin=subprocess.DEVNULL, stderr=log.open("w"))
        self.wait_for_ssh(log)

    def wait_for_ssh(self, log: Path) -> None:
        deadline = time.monotonic() + 10
        probe = [*self.at_near(), "ssh", "-F", str(self.config), self.host, "true"]
        while True:
            done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode == 0:
                return
            if time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"cannot log in at the benchmark's sshd: {done.stderr.strip()} {log.read_text().strip()}")
            time.sleep(0.05)


SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")


class Loopback(Bed):
    """Both ends in this network."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1")
        self.start_sshd(free_port())


class Link(Bed):
    """A veth pair between two namespaces; `rate` in Mbit/s shapes what leaves either end, None leaves it as fast as it is."""

    def __init__(self, rate: Optional[int]) -> None:
        super().__init__(FAR)
        need_root("a shaped link")
        try:
            self.near, self.far = self.namespace(), self.namespace()
            near, far = f"near{self.near.pid}"[:15], f"far{self.far.pid}"[:15]
            # Born in the near end's namespace, and the other end moved at once: the machine's own network
            # never sees them.
            self.ip(self.near, f"link add {near} type veth peer name {far} netns {self.far.pid}")
            self.interfaces = [(self.near, near), (self.far, far)]
            for (holder, name), address in zip(self.interfaces, (NEAR, FAR)):
                self.ip(holder, "link set lo up")
                self.ip(holder, f"address add {address}/24 dev {name}")
                self.ip(holder, f"link set {name} up")
            if rate:
                self.shape(rate, "add")
            self.start_sshd(22)
        except BaseException:
            self.stop()
            raise

    def namespace(self) -> subprocess.Popen:
        holder = self.spawn(["unshare", "--net", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + 10
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            if time.monotonic() > deadline or holder.poll() is not None:
                raise RuntimeError("cannot make a network namespace: unshare --net failed")
            time.sleep(0.002)
        return holder

    def shape(self, rate: int, verb: str) -> None:
        """tbf at both ends. `verb` is add, or change while bytes are under way."""
        for holder, name in self.interfaces:
            run([*inside(holder), "tc", "qdisc", verb, "dev", name, "root", "tbf", *shaping(rate).split()])

    def at_near(self) -> list:
        return inside(self.near)

    def at_far(self) -> list:
        return inside(self.far)

    def ip(self, holder: subprocess.Popen, words: str) -> None:
        run([*inside(holder), "ip", *words.split()])

    def traffic(self) -> Optional[tuple]:
        """Bytes that left the near end and that came to it, frames whole (proc(5), /proc/net/dev)."""
        holder, name = self.interfaces[0]
        line = re.search(rf"{name}:(.*)", Path(f"/proc/{holder.pid}/net/dev").read_text())
        counts = [int(word) for word in line.group(1).split()]
        return counts[8], counts[0]


def shaping(rate: int) -> str:
    """tbf's words for a rate in Mbit/s. The queue holds 20 ms, as a switch's or modem's would. The bucket holds 1 ms of 1 Gbit/s, at
    every rate: a frame of 64 KiB that the kernel hands down unsplit counts as 68.6 KB, with a head for each of its segments, and one
    that waits while the bucket becomes smaller than that never leaves (net/sched/sch_tbf.c)."""
    return f"rate {rate}mbit burst {BUCKET} limit {max(rate * 2500, 2 * BUCKET)}"


BUCKET = 125_000


def payload_rate(rate: int) -> float:
    """Bytes per second of TCP payload that a link of so many Mbit/s carries."""
    return rate * MB / 8 * PAYLOAD


class Lab(Bed):
    """A path that `weir lab shell` emulates; its own sshd is at the far end."""

    def __init__(self, path: list) -> None:
        need_root("an sshd of the lab")
        told = WORK / "lab.told"
        told.unlink(missing_ok=True)
        say = f'echo "$$ $WEIR_LAB_PEER $WEIR_LAB_SSH" > {told}.new && mv {told}.new {told} && exec sleep infinity'
        super().__init__("")
        self.shell = self.spawn([str(WEIR), "lab", "shell", *path, "--ssh", "--", "sh", "-c", say], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not told.exists():
            if time.monotonic() > deadline or self.shell.poll() is not None:
                self.stop()
                raise RuntimeError("weir lab shell did not start")
            time.sleep(0.01)
        pid, self.address, config = told.read_text().split()
        self.inside, self.config = ["nsenter", "-t", pid, "-n", "--"], Path(config)
        self.wait_for_ssh(Path(os.devnull))

    def at_near(self) -> list:
        return self.inside


def need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise PermissionError(f"{what} needs root: sudo make bench-cp, or the loopback scenarios alone")


def inside(holder: subprocess.Popen) -> list:
    return ["nsenter", "-t", str(holder.pid), "-n", "--"]


def run(argv: list) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
