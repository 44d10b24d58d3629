"""The examples of docs/python.md and python/examples run."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

import weir
from server import Server

HERE = Path(__file__).resolve().parent
IMAGE = b"image" * 100_000


def document() -> str:
    """It lies beside the tests where these were installed, else among the documents."""
    beside = HERE.parent / "python.md"
    return (beside if beside.exists() else HERE.parents[1] / "docs/python.md").read_text()


def test_the_document_s_examples(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    pytest.importorskip("huggingface_hub")
    import weir.huggingface

    server.files = {"/image.iso": IMAGE, "/a.bin": b"a", "/b.bin": b"b"}
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", document(), re.M | re.S)
    assert len(blocks) >= 8
    names: Dict[str, Any] = {}
    for block in blocks:
        block = block.replace("https://host/", server.url("/"))
        block = re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{hashlib.sha256(IMAGE).hexdigest()}", block)
        exec(compile(block, "docs/python.md", "exec"), names)
    weir.huggingface.uninstall()
    assert (tmp_path / "image.iso").read_bytes() == IMAGE == server.stored["/in/image.iso"]
    assert (tmp_path / "data/deep/other-name.bin").read_bytes() == b"b"
    assert (tmp_path / "run.html").read_text().startswith("<!")


@pytest.mark.parametrize("name", ["resume.py", "bar.py"])
def test_the_examples(server: Server, tmp_path: Path, name: str) -> None:
    server.files["/image.iso"] = IMAGE
    script = HERE.parent / "examples" / name
    command = [sys.executable, str(script), server.url("/image.iso"), str(tmp_path / "x")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert (tmp_path / "x").read_bytes() == IMAGE


def test_every_name_is_in_the_document() -> None:
    text = document()
    missing = [
        name
        for name in weir.__all__
        if name[0] != "_"
        and f"weir.{name}" not in text
        and name not in ("Advice", "FileRecord", "ProgressCallback", "StrPath", "Verdict")
    ]
    assert missing == []
