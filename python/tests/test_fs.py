"""Ranges by fsspec."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

import weir
from server import Server

fsspec = pytest.importorskip("fsspec")
from weir import fs as weir_fs  # noqa: E402
from weir.fs import WeirFileSystem  # noqa: E402

DATA = bytes(range(256)) * 4096


@pytest.fixture
def files(server: Server) -> WeirFileSystem:
    server.files["/x.bin"] = DATA
    return WeirFileSystem(skip_instance_cache=True)


def test_ranges_of_an_open_file(server: Server, files: WeirFileSystem) -> None:
    with files.open(server.url("/x.bin"), block_size=64 << 10) as file:
        assert file.size == len(DATA)
        assert file.read(10) == DATA[:10]
        file.seek(-8, 2)
        assert file.read() == DATA[-8:]
        file.seek(500_000)
        assert file.read(100_000) == DATA[500_000:600_000]
    asked = [fields["range"] for method, _, fields in server.asked if method == "GET"]
    assert asked and not any(one == "bytes=0-" for one in asked)


def test_slices(server: Server, files: WeirFileSystem) -> None:
    url = server.url("/x.bin")
    assert files.cat_file(url) == DATA
    assert files.cat_file(url, 5, 9) == DATA[5:9]
    assert files.cat_file(url, -5) == DATA[-5:]
    assert files.cat_file(url, 10, -10) == DATA[10:-10]
    assert files.cat_file(url, len(DATA) + 5, len(DATA) + 9) == b""
    assert files.cat_ranges([url, url], [0, 7], [4, 9]) == [DATA[:4], DATA[7:9]]


def test_by_its_scheme(server: Server) -> None:
    server.files["/x.bin"] = DATA
    with fsspec.open("weir+" + server.url("/x.bin"), "rb") as file:
        assert file.read(5) == DATA[:5]


def test_what_a_server_says(server: Server, files: WeirFileSystem, tmp_path: Path) -> None:
    url = server.url("/x.bin")
    info = files.info(url)
    assert (info["size"], info["type"], info["ETag"]) == (len(DATA), "file", server.etag("/x.bin"))
    assert files.exists(url) and not files.exists(server.url("/missing"))
    with pytest.raises(FileNotFoundError):
        files.open(server.url("/missing"))
    files.get_file(url, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == DATA


def test_a_callback_hears_how_far_it_is(server: Server, files: WeirFileSystem, tmp_path: Path) -> None:
    callback = fsspec.callbacks.Callback()
    files.get_file(server.url("/x.bin"), tmp_path / "x", callback=callback)
    assert (callback.size, callback.value) == (len(DATA), len(DATA))


def test_an_object_that_changes_is_never_mixed(server: Server, files: WeirFileSystem) -> None:
    with files.open(server.url("/x.bin"), block_size=1 << 10, cache_type="none") as file:
        assert file.read(10) == DATA[:10]
        server.files["/x.bin"] = b"z" * len(DATA)
        file.seek(100_000)
        with pytest.raises(weir.TransferError, match="its ETag is another; open it again"):
            file.read(10)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ETag": 'W/"1"'}, {"ETag": 'W/"2"'}),
        ({"ETag": '"1"'}, {"ETag": ""}),
        (
            {"ETag": "", "Last-Modified": "Tue, 15 Nov 1994 12:45:26 GMT"},
            {"ETag": "", "Last-Modified": "Tue, 15 Nov 1994 12:45:27 GMT"},
        ),
        (
            {"ETag": "", "Last-Modified": "Tue, 15 Nov 1994 12:45:26 GMT"},
            {"ETag": "", "Last-Modified": "Mon, 14 Nov 1994 12:45:26 GMT"},
        ),
    ],
)
def test_whatever_names_the_version_is_held_to(
    server: Server, files: WeirFileSystem, before: Dict[str, str], after: Dict[str, str]
) -> None:
    server.fields["/x.bin"] = before
    with files.open(server.url("/x.bin"), block_size=1 << 10, cache_type="none") as file:
        assert file.read(10) == DATA[:10]
        assert file.read(10) == DATA[10:20]
        server.fields["/x.bin"] = after
        with pytest.raises(weir.TransferError, match="open it again"):
            file.read(10)


@pytest.mark.parametrize(("status", "head"), [(301, 403), (302, 405), (303, 501), (307, 400), (308, None)])
def test_redirects_and_servers_without_head(
    server: Server, files: WeirFileSystem, status: int, head: Optional[int]
) -> None:
    server.head = head
    with Server() as other:
        other.head = head
        other.files["/y.bin"] = DATA
        server.answers["/moved"] = (status, {"Location": other.url("/y.bin")}, b"")
        with files.open(server.url("/moved"), block_size=1 << 10, cache_type="none") as file:
            assert (file.size, file.read(10)) == (len(DATA), DATA[:10])
            # It is of one version there, too.
            other.files["/y.bin"] = b"z" * len(DATA)
            with pytest.raises(weir.TransferError, match="open it again"):
                file.read(10)


def test_servers_without_ranges_or_bytes(server: Server, files: WeirFileSystem) -> None:
    server.files["/empty"] = b""
    assert files.info(server.url("/empty"))["size"] == 0
    with files.open(server.url("/empty")) as file:
        assert file.read() == b""
    server.answers["/whole"] = (200, {"ETag": '"1"'}, DATA)
    info = files.info(server.url("/whole"))
    assert (info["size"], info["ETag"], info["partial"]) == (len(DATA), '"1"', False)
    server.answers["/unknown"] = (200, {"Content-Length": ""}, b"some")
    assert files.info(server.url("/unknown"))["size"] is None
    assert files.cat_file(server.url("/unknown")) == b"some"
    with pytest.raises(weir.TransferError, match="does not say its size"):
        files.open(server.url("/unknown"))


def test_letters_of_patterns_are_letters(
    server: Server, files: WeirFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/a[1]*.bin"] = DATA
    url = server.url("/a[1]*.bin?x=*")
    assert files.cat(url) == DATA
    assert files.cat([url]) == {url: DATA}
    assert files.glob(url) == [url] and files.glob(server.url("/b*")) == []
    assert list(files.glob(url, detail=True)) == [url]
    files.get(url, str(tmp_path / "new/x.bin"))
    files.get([url], [str(tmp_path / "y.bin")])
    files.get(url, f"{tmp_path}/in/")
    monkeypatch.setenv("HOME", str(tmp_path))
    files.get(url, "~/home.bin")
    for name in ("new/x.bin", "y.bin", "in/a[1]*.bin", "home.bin"):
        assert (tmp_path / name).read_bytes() == DATA, name
    with fsspec.open("weir+" + url) as file:
        assert file.read(5) == DATA[:5]


def test_a_pickled_file_is_opened_again(server: Server, files: WeirFileSystem) -> None:
    with files.open(server.url("/x.bin"), block_size=1 << 10) as file:
        file.seek(1000)
        again = pickle.loads(pickle.dumps(file))
    with again:
        assert again.read(10) == DATA[1000:1010]


def test_ranges_that_memory_has_no_room_for(
    server: Server, files: WeirFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: List[str] = []
    server.after = lambda sent: seen.extend(os.listdir(tmp_path))
    url = server.url("/x.bin")
    full = os.statvfs_result((4096, 4096, 16384, 1, 1, 0, 0, 0, 0, 255))
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda path: full)
        assert files.cat_file(url, 0, 100_000) == DATA[:100_000]
    assert seen and all(name.startswith("weir-") for name in seen)
    # It may be full when the bytes come.
    seen.clear()
    calls: List[Any] = []
    real = weir_fs._call

    def call(words: List[str], *arguments: Any, **more: Any) -> Any:
        calls.append(words)
        if len(calls) == 1:
            raise weir.TransferError("cannot write /dev/shm/range: no space left on device")
        return real(words, *arguments, **more)

    roomy = os.statvfs_result((4096, 4096, 1 << 30, 1 << 30, 1 << 30, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: roomy)
    monkeypatch.setattr(weir_fs, "_call", call)
    monkeypatch.setattr(weir_fs, "_MEMORY", str(tmp_path / "shm"))
    os.mkdir(tmp_path / "shm")
    assert files.cat_file(url, 0, 100_000) == DATA[:100_000]
    assert len(calls) == 2


def test_what_cannot_be_done_is_an_exception(server: Server, files: WeirFileSystem) -> None:
    with pytest.raises(weir.UsageError, match="weir.put"):
        files.open(server.url("/x.bin"), "wb")
    with pytest.raises(weir.UsageError):
        files.info("nonsense://x")
    with pytest.raises(weir.UsageError, match="hub"):
        files.info("hf://org/model/file")
    with pytest.raises(weir.TransferError):
        files.exists("http://127.0.0.1:1/x")
