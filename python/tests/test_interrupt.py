"""Ctrl-C in a Python program: heard, with the part kept, and with the program's own handlers left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

import weir
from server import Server

DATA = bytes(range(256)) * 4096 * 8

SCRIPT = """
import signal, sys, weir
url, target = sys.argv[1:3]
{before}
try:
    weir.get(url, target, lanes=1, progress=lambda now: now.bytes > 100_000 and print("begun", flush=True))
    print("complete")
except {caught} as error:
    record = getattr(error, "record", None)
    print(type(error).__name__, record and record.outcome, str(error))
assert signal.getsignal(signal.SIGINT) is {handler}
"""


def interrupted(
    server: Server, target: Path, before: str, caught: str, handler: str, signals: int = 1
) -> List[str]:
    """What a program says whose transfer gets SIGINT when it has begun."""
    script = SCRIPT.format(before=before, caught=caught, handler=handler)
    command = [sys.executable, "-c", script, server.url("/x.bin"), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
        said = [line for line in process.stdout.read().splitlines() if line != "begun"]
        assert process.wait(30) == 0
    return said


def test_ctrl_c_keeps_the_part_and_the_same_call_resumes(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    server.rate = 2e6
    target = tmp_path / "x.bin"
    said = interrupted(server, target, "", "weir.Interrupted", "signal.default_int_handler")
    assert len(said) == 1 and said[0].startswith("Interrupted partial ") and "resume" in said[0]
    assert target.with_name("x.bin.part").exists() and not target.exists()
    server.rate = None
    record = weir.get(server.url("/x.bin"), target)
    assert record.resumed > 0 and target.read_bytes() == DATA


def test_it_is_a_keyboard_interrupt(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    server.rate = 2e6
    said = interrupted(server, tmp_path / "x", "", "KeyboardInterrupt", "signal.default_int_handler")
    assert said[0].startswith("Interrupted partial ")
    assert issubclass(weir.Interrupted, KeyboardInterrupt) and not issubclass(weir.Interrupted, Exception)


def test_what_the_program_s_own_handler_raises_is_raised(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    server.rate = 2e6
    before = "def own(number, frame): raise LookupError('mine')\nsignal.signal(signal.SIGINT, own)"
    said = interrupted(server, tmp_path / "x", before, "LookupError", "own")
    assert said == ["LookupError None mine"]
    assert (tmp_path / "x.part").exists()


def test_a_handler_that_raises_nothing_ends_nothing(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA[: 2 << 20]
    server.rate = 2e6
    before = "def own(number, frame): pass\nsignal.signal(signal.SIGINT, own)"
    said = interrupted(server, tmp_path / "x", before, "Exception", "own")
    assert said == ["complete"]
    assert (tmp_path / "x").read_bytes() == DATA[: 2 << 20]


def test_a_server_that_says_nothing_is_left_at_once(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        script = "import sys, weir\ntry: weir.get(*sys.argv[1:])\nexcept KeyboardInterrupt: print('heard')"
        command = [sys.executable, "-c", script, url, str(tmp_path / "x")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            # Far below the minute that a silent server is given.
            assert process.communicate(timeout=30)[0] == "heard\n"
            connection.close()


@pytest.mark.parametrize("call", ["weir.why(0)", "weir.why(True)", "weir.why([])", "weir.why('')"])
def test_nothing_hangs_on_nonsense(call: str) -> None:
    script = (
        f"import weir\ntry: {call}\nexcept (weir.WeirError, TypeError) as error: print(type(error).__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() in ("UsageError", "TypeError", "WeirError"), ran
