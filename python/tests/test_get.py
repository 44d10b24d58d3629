"""``weir.get``: records, progress, exceptions."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

import weir
from server import Server

DATA = bytes(range(256)) * 4096 * 4
SHA256 = hashlib.sha256(DATA).hexdigest()


def _steady(record: Dict[str, Any]) -> Dict[str, Any]:
    # What is measured differs from run to run; whether a member is there does not.
    measured = {"seconds", "rate", "samples", "loads", "lanes", "verdict", "connections", "peak_memory"}
    measured |= {"written_rate", "disk_rate"}
    return {key: value for key, value in record.items() if key not in measured}


def test_a_file_and_its_record(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    record = weir.get(server.url("/x.bin"), tmp_path / "x.bin", checksum=f"sha256:{SHA256}")
    assert (tmp_path / "x.bin").read_bytes() == DATA
    assert (record.command, record.outcome, record.bytes) == ("get", "complete", len(DATA))
    assert record.path == str(tmp_path / "x.bin")
    assert record.files[0].digest == f"sha256:{SHA256}"
    assert record.error is None and record.files[0].error is None
    assert sorted(os.listdir(tmp_path)) == ["x.bin"]


def test_the_umask_is_that_of_each_file(server: Server, tmp_path: Path) -> None:
    server.files["/x"] = b"x"
    before = os.umask(0o022)
    try:
        weir.get(server.url("/x"), tmp_path / "open")
        os.umask(0o077)
        weir.get(server.url("/x"), tmp_path / "own")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("open", "own")]
    assert modes == [0o644, 0o600]


def test_the_record_is_what_json_prints(server: Server, tmp_path: Path, program: str) -> None:
    server.files["/x.bin"] = DATA
    server.rate = 8e6
    url, target = server.url("/x.bin"), str(tmp_path / "x.bin")
    own = weir.get(url, target, lanes=1)
    command = [program, "get", url, "-o", target, "--lanes", "1", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = weir.Record(ran.stdout)
    assert printed.json + "\n" == ran.stdout
    assert _steady(own.to_dict()) == _steady(printed.to_dict())
    # Which members there are, and of what kind, in the order in which they are printed.
    assert list(own.to_dict()) == list(printed.to_dict())
    verdicts = own.to_dict()["verdict"], printed.to_dict()["verdict"]
    assert list(verdicts[0]) == list(verdicts[1])
    assert own.verdict is not None and own.verdict.limit == own.to_dict()["verdict"]["limit"]
    assert dict(own.verdict.shares) == own.to_dict()["verdict"]["shares"]
    assert own.verdict.evidence == own.to_dict()["verdict"]["evidence"]
    assert [one.action for one in own.verdict.advice] == [
        one["action"] for one in own.to_dict()["verdict"]["advice"]
    ]
    assert weir.Record(own.json) == own and own != printed
    assert pickle.loads(pickle.dumps(own)) == own


def test_a_folder_and_the_server_s_name(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = b"abc"
    assert weir.get(server.url("/x.bin"), tmp_path).path == str(tmp_path / "x.bin")
    assert weir.get(server.url("/x.bin"), f"{tmp_path}/new/").path == f"{tmp_path}/new/x.bin"


def test_a_path_is_a_file_even_where_it_looks_like_an_option(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/x.bin"] = b"abc"
    monkeypatch.chdir(tmp_path)
    for name in ["-", "--json", "-o"]:
        weir.get(server.url("/x.bin"), name)
        assert (tmp_path / name).read_bytes() == b"abc"


def test_progress_comes_at_most_twenty_times_a_second(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    server.rate = 4e6
    seen: List[weir.Progress] = []
    began = time.monotonic()
    record = weir.get(server.url("/x.bin"), tmp_path / "x.bin", lanes=1, progress=seen.append)
    took = time.monotonic() - began
    assert 1 <= len(seen) <= 20 * took + 1
    assert [one.bytes for one in seen] == sorted(one.bytes for one in seen)
    assert all(one.total in (None, len(DATA)) for one in seen) and seen[-1].total == len(DATA)
    assert seen[-1].connections <= 1 and record.outcome == "complete"


def test_what_progress_raises_ends_the_transfer_and_the_part_is_kept(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    server.rate = 2e6

    def stop(now: weir.Progress) -> None:
        if now.bytes > 100_000:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        weir.get(server.url("/x.bin"), tmp_path / "x.bin", lanes=1, progress=stop)
    assert (tmp_path / "x.bin.part").exists() and not (tmp_path / "x.bin").exists()
    server.rate = None
    record = weir.get(server.url("/x.bin"), tmp_path / "x.bin")
    assert record.resumed > 0
    assert (tmp_path / "x.bin").read_bytes() == DATA


def test_other_threads_run_meanwhile(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    server.rate = 8e6
    counted, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    weir.get(server.url("/x.bin"), tmp_path / "x.bin", lanes=1)
    over.set()
    thread.join()
    # The server is a thread of this process as well: without the lock nothing would have come.
    assert counted[0] > 0


def test_several_at_once(server: Server, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    server.files = {f"/{number}": bytes([number]) * 100_000 for number in range(8)}
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(weir.get, server.url(path), tmp_path / path[1:]) for path in server.files]
        assert all(call.result().outcome == "complete" for call in calls)
    assert all((tmp_path / path[1:]).read_bytes() == data for path, data in server.files.items())


@pytest.mark.parametrize(
    ("arguments", "kind", "code", "text"),
    [
        (dict(path="/missing"), weir.TransferError, 1, "404"),
        (dict(checksum="sha256:" + "0" * 64), weir.VerificationError, 3, "sha256"),
        (dict(checksum="sha256:xyz"), weir.UsageError, 2, "sha256"),
        (dict(checksum="md9:00"), weir.UsageError, 2, "md9"),
        (dict(lanes=0), weir.UsageError, 2, "--lanes"),
        (dict(lanes=-3), weir.UsageError, 2, "--lanes"),
        (dict(lanes=10**30), weir.UsageError, 2, "--lanes"),
        (dict(options=["--no-such"]), weir.UsageError, 2, "--no-such"),
        (dict(options=["--help"]), weir.UsageError, 2, "weir get --help"),
        (dict(options=["--version"]), weir.UsageError, 2, "--version"),
        (dict(options=["-o", "-"], target=None), weir.UsageError, 2, "stdout"),
        (dict(options=["-i", "-"], target=None), weir.UsageError, 2, "stdin"),
        (dict(options=["--json-files", "-"]), weir.UsageError, 2, "stdout"),
        (dict(options=["--tui"]), weir.UsageError, 2, "terminal"),
        (dict(target=""), weir.UsageError, 2, "-o needs a file"),
        (dict(target="no/such/folder/x"), weir.UsageError, 2, "no folder"),
        (dict(url=""), weir.UsageError, 2, "url"),
        (dict(url="ftp://h/x"), weir.UsageError, 2, "ftp"),
        (dict(url="--json"), weir.UsageError, 2, "--json"),
        (dict(url="http://[::1"), weir.UsageError, 2, "url"),
        (dict(url="http://h/a\nb"), weir.UsageError, 2, "position"),
        (dict(url="http://h/\0"), weir.UsageError, 2, "NUL"),
        (dict(url="s3://"), weir.UsageError, 2, "s3"),
        (dict(url="\udc80"), weir.UsageError, 2, "UTF-8"),
    ],
)
def test_exceptions_by_exit_code(
    server: Server, tmp_path: Path, arguments: Dict[str, Any], kind: type, code: int, text: str
) -> None:
    server.files["/x.bin"] = b"abc"
    url = arguments.pop("url", server.url(arguments.pop("path", "/x.bin")))
    target = arguments.pop("target", tmp_path / "x")
    with pytest.raises(kind) as caught:
        weir.get(url, target, **arguments)
    error: Any = caught.value
    assert isinstance(error, weir.WeirError) and error.code == code
    assert text in str(error), str(error)
    assert "Usage:" not in str(error) and not str(error).startswith("error")
    assert not (tmp_path / "x").exists()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_what_is_incomplete_goes_on_by_the_same_call(server: Server, tmp_path: Path) -> None:
    # A longer wait than is allowed.
    server.answers["/x.bin"] = (503, {"Retry-After": "7200"}, b"")
    with pytest.raises(weir.IncompleteError, match="503 Service Unavailable") as caught:
        weir.get(server.url("/x.bin"), tmp_path / "x")
    error = caught.value
    assert error.code == 4 and error.record is not None and error.record.outcome == "partial"
    assert not (tmp_path / "x").exists()
    del server.answers["/x.bin"]
    server.files["/x.bin"] = b"abc"
    assert weir.get(server.url("/x.bin"), tmp_path / "x").outcome == "complete"
    assert (tmp_path / "x").read_bytes() == b"abc"


@pytest.mark.parametrize(
    "arguments",
    [
        dict(url=5),
        dict(url=None),
        dict(url=b"http://h/x"),
        dict(path=5),
        dict(lanes="4"),
        dict(lanes=True),
        dict(lanes=1.5),
        dict(checksum=5),
        dict(progress="x"),
        dict(options="--json"),
        dict(options=[1]),
    ],
)
def test_other_types_are_type_errors(tmp_path: Path, arguments: Dict[str, Any]) -> None:
    call: Dict[str, Any] = dict(url="http://127.0.0.1:1/x", path=tmp_path / "x")
    call.update(arguments)
    with pytest.raises(TypeError):
        weir.get(call.pop("url"), call.pop("path"), **call)


def test_an_error_has_the_command_s_words(server: Server, tmp_path: Path, program: str) -> None:
    server.files["/x.bin"] = b"abc"
    for words in [
        [server.url("/missing"), "-o", str(tmp_path / "x")],
        [server.url("/x.bin"), "-o", str(tmp_path / "x"), "--checksum", "sha256:" + "0" * 64],
        ["gopher://h/x"],
        ["http://127.0.0.1:1/x", "-o", str(tmp_path / "x"), "--retries", "0"],
        [server.url("/x.bin"), "-o", str(tmp_path / "none" / "x")],
    ]:
        ran = subprocess.run([program, "get", "--json", *words], capture_output=True, text=True, cwd=tmp_path)
        with pytest.raises(weir.WeirError) as caught:
            weir.get(words[0], options=words[1:])
        said = "".join(f"weir: {line}\n" for line in str(caught.value).splitlines())
        assert (said, caught.value.code) == (ran.stderr, ran.returncode)
        assert (caught.value.record is None) == (ran.stdout == "")


def test_a_failure_has_its_record(server: Server, tmp_path: Path) -> None:
    with pytest.raises(weir.TransferError) as caught:
        weir.get(server.url("/missing"), tmp_path / "x")
    record = caught.value.record
    assert record is not None and record.outcome == "failed"
    assert record.files[0].error is not None and record.files[0].error in str(caught.value)


def test_nothing_is_printed_and_no_signal_is_taken(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    script = """
import signal, sys, weir
before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
def caught():
    lines = [line.split() for line in open("/proc/self/status") if line.startswith(("SigCgt", "SigIgn"))]
    # Without 32 and 33, which the C library keeps for its threads.
    return [(name, int(mask, 16) & 0x7FFFFFFF) for name, mask in lines]
masks = caught()
weir.get(sys.argv[1], sys.argv[2])
try: weir.get(sys.argv[1] + "-missing", sys.argv[2] + "2")
except weir.TransferError: pass
assert before == [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
assert masks == caught(), (masks, caught())
"""
    command = [sys.executable, "-c", script, server.url("/x.bin"), str(tmp_path / "x")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_fork_after_a_transfer_can_transfer(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    script = """
import os, sys, weir
weir.get(sys.argv[1], sys.argv[2])
child = os.fork()
if child == 0:
    weir.get(sys.argv[1], sys.argv[2] + "2")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    command = [sys.executable, "-c", script, server.url("/x.bin"), str(tmp_path / "x")]
    subprocess.run(command, check=True, timeout=60)
    assert (tmp_path / "x2").read_bytes() == DATA


def test_the_version_is_the_program_s(program: str) -> None:
    ran = subprocess.run([program, "version", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["version"].startswith(weir.__version__)


def test_the_page_of_a_record(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = DATA
    record = weir.get(server.url("/x.bin"), tmp_path / "x.bin")
    page = record.html()
    assert page.startswith("<!doctype html>") and page.count("<html") == 1
    frame = record._repr_html_()
    assert frame.startswith("<iframe") and "<html" not in frame
    with pytest.raises(ValueError, match="not a record"):
        weir.Record("{")
    with pytest.raises(ValueError, match="not a record"):
        weir.Record('{"schema": "weir.run/1"}')
    with pytest.raises(ValueError, match="weir.run/1"):
        weir.Record('{"schema": "other/1"}')
