"""datasets' downloads by weir, against a mock of a hub: its files come by huggingface_hub."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from server import Server

pytest.importorskip("datasets", reason="the package datasets is not installed (100 MB)")

COMMIT = "1234567890abcdef1234567890abcdef12345678"
TABLE = b"a,b\n" + b"".join(b"%d,%d\n" % (number, number * number) for number in range(10_000))

# The library reads the hub's address when it is imported.
SCRIPT = """
import sys, datasets, weir.huggingface
records = []
weir.huggingface.install(record=records.append)
table = datasets.load_dataset("csv", data_files="hf://datasets/org/data@main/train.csv", split="train")
print(table.num_rows, table[3]["b"], len(records), records[0].outcome, records[0].bytes)
"""


def test_a_table_of_a_hub(server: Server, tmp_path: Path) -> None:
    digest = hashlib.sha256(TABLE).hexdigest()
    info = {
        "id": "org/data",
        "sha": COMMIT,
        "siblings": [{"rfilename": "train.csv"}],
        "private": False,
        "_id": "1",
    }
    entry = {"type": "file", "path": "train.csv", "size": len(TABLE), "oid": "0" * 40}
    entry["lfs"] = {"oid": digest, "size": len(TABLE), "pointerSize": 134}
    for revision in ("main", COMMIT):
        path = f"/datasets/org/data/resolve/{revision}/train.csv"
        server.files[path] = TABLE
        server.fields[path] = {"X-Repo-Commit": COMMIT, "ETag": f'"{digest}"', "X-Linked-ETag": f'"{digest}"'}
        api = "/api/datasets/org/data"
        for name, value in (("revision", info), ("tree", [entry]), ("paths-info", [entry])):
            server.answers[f"{api}/{name}/{revision}"] = (
                200,
                {"Content-Type": "application/json"},
                json.dumps(value).encode(),
            )
    server.answers["/api/datasets/org/data"] = (
        200,
        {"Content-Type": "application/json"},
        json.dumps(info).encode(),
    )
    places = {"HF_ENDPOINT": server.base, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env={**os.environ, **places},
        timeout=120,
    )
    assert ran.stdout.split() == ["10000", "9", "1", "complete", str(len(TABLE))], ran.stderr[-3000:]
