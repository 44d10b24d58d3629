"""Ranges by fsspec."""

from __future__ import annotations

from pathlib import Path

import pytest

import weir
from server import Server

fsspec = pytest.importorskip("fsspec")
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


def test_an_object_that_changes_is_never_mixed(server: Server, files: WeirFileSystem) -> None:
    with files.open(server.url("/x.bin"), block_size=1 << 10, cache_type="none") as file:
        assert file.read(10) == DATA[:10]
        server.files["/x.bin"] = b"z" * len(DATA)
        file.seek(100_000)
        with pytest.raises(weir.WeirError, match="412"):
            file.read(10)


def test_what_cannot_be_done_is_an_exception(server: Server, files: WeirFileSystem) -> None:
    with pytest.raises(weir.UsageError, match="weir.put"):
        files.open(server.url("/x.bin"), "wb")
    with pytest.raises(weir.UsageError):
        files.info("nonsense://x")
    with pytest.raises(weir.UsageError, match="hub"):
        files.info("hf://org/model/file")
    with pytest.raises(weir.TransferError):
        files.exists("http://127.0.0.1:1/x")
