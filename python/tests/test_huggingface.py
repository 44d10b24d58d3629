"""huggingface_hub's downloads by weir, against a mock of a hub."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Dict, Iterator, List

import pytest

import weir
from server import Server

pytest.importorskip("huggingface_hub")
import huggingface_hub  # noqa: E402
import weir.huggingface  # noqa: E402

COMMIT = "1234567890abcdef1234567890abcdef12345678"
LARGE = bytes(range(256)) * 4096 * 4


class Hub:
    """A repository with a small file and one in LFS."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.files = {"config.json": b'{"a": 1}', "model.bin": LARGE}
        self.sha256 = hashlib.sha256(LARGE).hexdigest()
        for revision in ("main", COMMIT):
            for name, data in self.files.items():
                self._file(f"/org/model/resolve/{revision}/{name}", name, data)
            self._json(f"/api/models/org/model/revision/{revision}", self._model())
            self._json(f"/api/models/org/model/tree/{revision}", self._tree())

    def _etag(self, name: str, data: bytes) -> str:
        is_large = name == "model.bin"
        return self.sha256 if is_large else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def _file(self, path: str, name: str, data: bytes) -> None:
        self.server.files[path] = data
        etag = self._etag(name, data)
        self.server.fields[path] = {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{etag}"',
            "X-Linked-Size": str(len(data)),
        }
        self.server.fields[path]["X-Linked-ETag"] = f'"{etag}"'

    def _json(self, path: str, value: object) -> None:
        import json

        text = json.dumps(value).encode()
        self.server.answers[path] = (200, {"Content-Type": "application/json"}, text)

    def _model(self) -> Dict[str, object]:
        files = [{"rfilename": name} for name in self.files]
        return {
            "_id": "1",
            "id": "org/model",
            "modelId": "org/model",
            "sha": COMMIT,
            "siblings": files,
            "private": False,
        }

    def _tree(self) -> List[Dict[str, object]]:
        tree: List[Dict[str, object]] = []
        for name, data in self.files.items():
            entry: Dict[str, object] = {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
            if name == "model.bin":
                entry["lfs"] = {"oid": self.sha256, "size": len(data), "pointerSize": 134}
            tree.append(entry)
        return tree

    def gets(self) -> List[Dict[str, str]]:
        """The fields of the requests for files."""
        return [
            fields for method, path, fields in self.server.asked if method == "GET" and "/resolve/" in path
        ]


@pytest.fixture
def hub(server: Server) -> Iterator[Hub]:
    yield Hub(server)
    weir.huggingface.uninstall()


def test_a_file_comes_by_weir_into_the_cache_of_the_hub_s_library(hub: Hub, tmp_path: Path) -> None:
    records: List[weir.Record] = []
    weir.huggingface.install(record=records.append)
    where = dict(cache_dir=tmp_path, endpoint=hub.server.base, token="hf_secret")
    path = huggingface_hub.hf_hub_download("org/model", "model.bin", **where)  # type: ignore[call-overload]
    assert Path(path).read_bytes() == LARGE
    assert Path(path).resolve().name == hub.sha256 and f"snapshots/{COMMIT}/" in path
    assert [record.outcome for record in records] == ["complete"]
    assert records[0].files[0].digest == f"sha256:{hub.sha256}"
    assert all(fields["authorization"] == "Bearer hf_secret" for fields in hub.gets())
    # It is in the cache: the library's own look-up finds it, and nothing is fetched again.
    before = len(hub.gets())
    assert huggingface_hub.hf_hub_download("org/model", "model.bin", **where) == path  # type: ignore[call-overload]
    assert huggingface_hub.try_to_load_from_cache("org/model", "model.bin", cache_dir=tmp_path) == path
    assert len(hub.gets()) == before and len(records) == 1


def test_a_snapshot_is_the_same_as_by_the_hub_s_library(hub: Hub, tmp_path: Path) -> None:
    def fetched(folder: str) -> Dict[str, bytes]:
        path = Path(
            huggingface_hub.snapshot_download(
                "org/model", cache_dir=tmp_path / folder, endpoint=hub.server.base
            )
        )
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}

    records: List[weir.Record] = []
    with weir.huggingface.installed(record=records.append):
        by_weir = fetched("weir")
    assert len(records) == 2
    assert by_weir == fetched("own") == hub.files
    assert len(records) == 2
    names = [
        sorted(
            str(path.relative_to(tmp_path / one))
            for path in (tmp_path / one).rglob("*")
            if path.suffix != ".lock"
        )
        for one in ("weir", "own")
    ]
    assert names[0] == names[1]


def test_a_local_folder(hub: Hub, tmp_path: Path) -> None:
    with weir.huggingface.installed():
        huggingface_hub.snapshot_download("org/model", local_dir=tmp_path / "here", endpoint=hub.server.base)
    assert (tmp_path / "here/model.bin").read_bytes() == LARGE


def test_other_bytes_than_the_hub_names_do_not_get_into_the_cache(hub: Hub, tmp_path: Path) -> None:
    for path in list(hub.server.files):
        if path.endswith("model.bin"):
            hub.server.files[path] = b"z" * len(LARGE)
    with weir.huggingface.installed(), pytest.raises(weir.VerificationError):
        huggingface_hub.hf_hub_download(
            "org/model", "model.bin", cache_dir=tmp_path, endpoint=hub.server.base
        )
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name == hub.sha256]


def test_what_was_interrupted_is_resumed(hub: Hub, tmp_path: Path) -> None:
    def stop(now: weir.Progress) -> None:
        if now.bytes > 100_000:
            raise LookupError("enough")

    hub.server.rate = 2e6
    blob = tmp_path / "models--org--model/blobs" / hub.sha256
    blob.parent.mkdir(parents=True)
    url = hub.server.url("/org/model/resolve/main/model.bin")
    with pytest.raises(LookupError):
        weir.get(url, blob, lanes=1, progress=stop, checksum=f"sha256:{hub.sha256}", options=["--any-type"])
    assert os.path.exists(f"{blob}.part")
    hub.server.rate = None
    records: List[weir.Record] = []
    with weir.huggingface.installed(record=records.append):
        huggingface_hub.hf_hub_download(
            "org/model", "model.bin", cache_dir=tmp_path, endpoint=hub.server.base
        )
    assert records[0].resumed > 0
