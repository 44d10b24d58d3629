"""``weir.get_many``, ``weir.put`` and ``weir.why``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

import weir
from server import Server


def test_many_files_under_the_server_s_names(server: Server, tmp_path: Path) -> None:
    server.files = {f"/{number}.bin": bytes([number]) * 50_000 for number in range(20)}
    record = weir.get_many((server.url(path) for path in server.files), tmp_path / "new")
    assert record.outcome == "complete" and len(record.files) == 20
    for path, data in server.files.items():
        assert (tmp_path / "new" / path[1:]).read_bytes() == data
    with pytest.raises(ValueError, match="20 files"):
        record.path


def test_many_files_under_names_of_one_s_own(server: Server, tmp_path: Path) -> None:
    server.files = {"/a": b"a", "/b": b"b", "/c": b"c"}
    pairs: List[Any] = [
        (server.url("/a"), "deep/down/one"),
        (server.url("/b"), Path("two")),
        server.url("/c"),
    ]
    weir.get_many(pairs, tmp_path, jobs=2)
    assert (tmp_path / "deep/down/one").read_bytes() == b"a"
    assert (tmp_path / "two").read_bytes() == b"b"
    assert (tmp_path / "c").read_bytes() == b"c"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", ".", "a//b", "a/", "a\0b"])
def test_names_stay_in_the_folder(server: Server, tmp_path: Path, name: str) -> None:
    with pytest.raises(weir.UsageError):
        weir.get_many([(server.url("/a"), name)], tmp_path / "in")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_one_that_fails_does_not_keep_the_others(server: Server, tmp_path: Path) -> None:
    server.files = {"/a": b"a", "/c": b"c"}
    with pytest.raises(weir.TransferError) as caught:
        weir.get_many([server.url(path) for path in ("/a", "/missing", "/c")], tmp_path)
    record = caught.value.record
    assert record is not None
    assert [file.error is None for file in record.files] == [True, False, True]
    assert "/missing" in str(caught.value) and "404" in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["a", "c"]


def test_none_at_all_and_other_types(tmp_path: Path) -> None:
    with pytest.raises(weir.UsageError):
        weir.get_many([], tmp_path)
    bad: Any
    with pytest.raises(TypeError, match="weir.get"):
        weir.get_many("http://h/x", tmp_path)
    for bad in ([5], [("http://h/x", "a", "b")], [(5, "a")], [None]):
        with pytest.raises(TypeError):
            weir.get_many(bad, tmp_path)


def test_a_file_is_put_and_its_record_is_what_json_prints(
    server: Server, tmp_path: Path, program: str
) -> None:
    (tmp_path / "x.bin").write_bytes(b"abc" * 1000)
    own = weir.put(tmp_path / "x.bin", server.url("/in/x.bin"))
    assert server.stored["/in/x.bin"] == b"abc" * 1000
    command = [program, "put", str(tmp_path / "x.bin"), server.url("/in/x.bin"), "--json"]
    printed = weir.Record(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert list(own.to_dict()) == list(printed.to_dict())
    for member in ("schema", "command", "outcome", "bytes", "files"):
        assert own.to_dict()[member] == printed.to_dict()[member]


def test_several_files_are_put(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "-").write_bytes(b"dash")
    record = weir.put([tmp_path / "a", tmp_path / "-"], server.url("/in/"))
    assert record.outcome == "complete"
    assert server.stored == {"/in/a": b"a", "/in/-": b"dash"}


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (dict(source="/no/such/file"), weir.WeirError),
        (dict(source=[]), weir.UsageError),
        (dict(url="nonsense://x/"), weir.UsageError),
        (dict(options=["-n"]), weir.UsageError),
        (dict(checksum="md9"), weir.UsageError),
    ],
)
def test_what_cannot_be_put_is_an_exception(
    server: Server, tmp_path: Path, arguments: Dict[str, Any], kind: type
) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    call: Dict[str, Any] = dict(source=tmp_path / "x", url=server.url("/x"))
    call.update(arguments)
    with pytest.raises(kind):
        weir.put(call.pop("source"), call.pop("url"), **call)
    assert server.stored == {}


def test_the_log_is_as_loud_as_was_asked_last(server: Server, tmp_path: Path) -> None:
    server.files["/x.bin"] = bytes(50_000)
    script = (
        "import sys, weir\n"
        "for number, verbose in enumerate((0, 2, 0)):\n"
        "    weir.log_to_stderr(verbose)\n"
        "    weir.get(sys.argv[1], f'{sys.argv[2]}/{number}')\n"
        "    print('--', file=sys.stderr, flush=True)"
    )
    command = [sys.executable, "-c", script, server.url("/x.bin"), str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr.split("--\n")
    assert ["INFO" in text or "DEBUG" in text for text in said[:3]] == [False, True, False], said


FETCH = "import sys, urllib.request; sys.exit(len(urllib.request.urlopen(sys.argv[1]).read()) != 4 << 20)"


def test_why_of_a_command(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    server.files["/x.bin"] = bytes(4 << 20)
    server.rate = 4e6
    record = weir.why([sys.executable, "-c", FETCH, server.url("/x.bin")])
    assert record.command == "why" and record.to_dict()["why"]["exit_code"] == 0
    assert record.verdict is not None and record.verdict.limit is not None
    assert capfd.readouterr() == ("", "")
    assert weir.why("sh -c 'exit 7'").to_dict()["why"]["exit_code"] == 7


def test_why_of_a_process(server: Server) -> None:
    server.files["/x.bin"] = bytes(4 << 20)
    server.rate = 2e6
    with subprocess.Popen([sys.executable, "-c", FETCH, server.url("/x.bin")]) as process:
        record = weir.why(process.pid, seconds=1)
        assert process.wait(60) == 0
    assert record.command == "why" and record.seconds <= 2
    assert f"{process.pid}" in record.to_dict()["why"]["subject"]


@pytest.mark.parametrize("what", [None, 3.5, True, {1}, [1]])
def test_what_is_no_process_and_no_command_is_a_type_error(what: Any) -> None:
    with pytest.raises(TypeError):
        weir.why(what)


@pytest.mark.parametrize(
    ("what", "code"),
    [("no-such-command-here", 127), ("/etc/passwd", 126), (2**31 - 1, 1), (2**70, 2), ("'unbalanced", 2)],
)
def test_what_cannot_be_watched_is_an_exception(what: Any, code: int) -> None:
    with pytest.raises(weir.WeirError) as caught:
        weir.why(what, seconds=1)
    assert caught.value.code == code, str(caught.value)


def test_ctrl_c_reaches_the_command_that_is_watched() -> None:
    script = (
        "import sys, weir\n"
        "try: weir.why(['sh', '-c', 'trap \"echo told >&2; exit 3\" INT; echo begun >&2; while :; do sleep 0.1; done'])\n"
        "except weir.Interrupted as error: print(error.record.to_dict()['why']['exit_code'])"
    )
    command = [sys.executable, "-c", script]
    pipes: Any = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, **pipes) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (out, err) == ("3\n", "told\n")
