"""What the tests stand on: a server of this process, and the program ``weir`` that the wheel brought."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Iterator

import pytest

from server import Server

# As everywhere in this project: no test reads its user's configuration.
os.environ["WEIR_CONFIG"] = ""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(scope="session")
def program() -> str:
    """The program beside this Python, or the one that WEIR names."""
    beside = Path(sys.prefix) / "bin" / "weir"
    found = os.environ.get("WEIR") or (str(beside) if beside.exists() else shutil.which("weir"))
    assert found, "the wheel brought no program; WEIR names another"
    return found
