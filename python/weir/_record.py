"""What a run came to: the record that ``--json`` prints, with names and types.

The record's format is the schema ``weir.run/1``, described in docs/record.md. Members that have no property
here are in :meth:`Record.to_dict`.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from . import _weir

SCHEMA = "weir.run/1"
"""The format that this module reads and writes."""


@dataclass(frozen=True)
class Advice:
    """One thing to change."""

    action: str
    """What to do."""
    predicted_rate: Optional[float]
    """The rate it would bring in bytes per second; None where no measured number supports one."""


@dataclass(frozen=True)
class Verdict:
    """What limited the run."""

    limit: Optional[str]
    """A limit's name or ``mixed``; None where the run was too short to judge."""
    confidence: float
    """How often verdicts on such evidence are right, 0 to 1."""
    shares: Mapping[str, float]
    """The share of the run's time for each limit, 0 to 1."""
    evidence: List[str]
    """Numbers with units that support the verdict."""
    innocent: List[str]
    """``LIMIT: numbers`` for each limit that is ruled out."""
    not_visible: List[str]
    """``LIMIT, LIMIT: why``: what cannot be observed from this end."""
    missing: List[str]
    """Readings that could not be taken."""
    advice: List[Advice]
    """What to change."""


@dataclass(frozen=True)
class FileRecord:
    """One file of a run."""

    url: str
    """Where it came from."""
    path: str
    """Where it lies."""
    bytes: int
    """Its bytes, those of an earlier run included."""
    resumed_from: int
    """The byte at which this run went on; 0 for a fresh file."""
    connections: int
    """The most connections that worked on it at one time."""
    digest: Optional[str]
    """``ALG:HEX`` of the whole file; None where none was computed."""
    error: Optional[str]
    """Why it failed; None where it did not."""
    notes: List[str]
    """What was passed over or overridden to get it."""


class Record:
    """A run: equal to another if ``--json`` would print the same."""

    __slots__ = ("_data", "_text")

    def __init__(self, text: str) -> None:
        """From the line that ``--json`` prints. Raises ValueError for anything else."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ValueError(f"not a record of a run: {error}") from None
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else None
            raise ValueError(f"record is {found!r}, this weir reads {SCHEMA!r}")
        if not all(isinstance(data.get(member), str) for member in ("command", "outcome")):
            raise ValueError("not a record of a run: it has no command or no outcome")
        self._text = text
        self._data: Dict[str, Any] = data

    @property
    def json(self) -> str:
        """The line that ``--json`` prints, without its end."""
        return self._text.rstrip("\n")

    def to_dict(self) -> Dict[str, Any]:
        """All members, as values of JSON; a copy."""
        copied: Dict[str, Any] = json.loads(self._text)
        return copied

    @property
    def command(self) -> str:
        """``get``, ``put`` or ``why``."""
        return str(self._data["command"])

    @property
    def outcome(self) -> str:
        """``complete``, ``partial`` or ``failed``."""
        return str(self._data["outcome"])

    @property
    def bytes(self) -> int:
        """Payload bytes that this run moved; what an earlier run had is in :attr:`resumed`."""
        return int(self._data.get("bytes", 0))

    @property
    def seconds(self) -> float:
        """Wall time of the run."""
        return float(self._data.get("seconds", 0.0))

    @property
    def rate(self) -> float:
        """Bytes per second over the whole run."""
        return float(self._data.get("rate", 0.0))

    @property
    def resumed(self) -> int:
        """Bytes that an earlier run had left."""
        return int(self._data.get("resumed") or 0)

    @property
    def connections(self) -> Optional[int]:
        """The most connections at one time; None where nothing was judged."""
        count = self._data.get("connections")
        return None if count is None else int(count)

    @property
    def error(self) -> Optional[str]:
        """Why the run as a whole failed."""
        text = self._data.get("error")
        return None if text is None else str(text)

    @property
    def files(self) -> List[FileRecord]:
        """Each file, in the order asked for; of more than ten thousand those that failed or have a note."""
        return [_file(data) for data in self._data.get("files", [])]

    @property
    def path(self) -> str:
        """The path of the only file. Raises ValueError where there are several, or none."""
        files = self.files
        if len(files) != 1:
            raise ValueError(f"the record has {len(files)} files; look at files")
        return files[0].path

    @property
    def counts(self) -> Optional[Mapping[str, Any]]:
        """How the files of a list ended, all of them; None where ``files`` says it."""
        counts = self._data.get("counts")
        return None if counts is None else dict(counts)

    @property
    def samples(self) -> List[Mapping[str, Any]]:
        """The run over time, oldest first: ``t``, ``rate``, ``limit`` and more."""
        return [dict(sample) for sample in self._data.get("samples", [])]

    @property
    def verdict(self) -> Optional[Verdict]:
        """What limited the run; None where nothing was judged."""
        data = self._data.get("verdict")
        return None if data is None else _verdict(data)

    def html(self) -> str:
        """The page of ``weir report``: one document with pictures, which loads nothing and runs nothing."""
        return _weir.page(self._text)

    def _repr_html_(self) -> str:
        # In a frame of its own: the page's style would change the notebook's.
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" sandbox style="width:100%;height:40em;border:0"></iframe>'

    def __eq__(self, other: object) -> bool:
        return self._data == other._data if isinstance(other, Record) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.command, self.outcome, self.bytes, self.seconds))

    def __reduce__(self) -> Any:
        return (Record, (self._text,))

    def __repr__(self) -> str:
        verdict = self.verdict
        limit = "not judged" if verdict is None or verdict.limit is None else f"limit {verdict.limit}"
        moved = f"{self.bytes} bytes in {self.seconds:.2f} s"
        return f"<weir.Record {self.command} {self.outcome}: {moved}, {limit}>"


def _file(data: Mapping[str, Any]) -> FileRecord:
    digest = data.get("digest")
    return FileRecord(
        url=data.get("url", ""),
        path=data.get("path", ""),
        bytes=data.get("bytes", 0),
        resumed_from=data.get("resumed_from", 0),
        connections=data.get("connections", 0),
        digest=None if digest is None else f"{digest['alg']}:{digest['hex']}",
        error=data.get("error"),
        notes=list(data.get("notes", [])),
    )


def _verdict(data: Mapping[str, Any]) -> Verdict:
    advice = [Advice(one.get("action", ""), one.get("predicted_rate")) for one in data.get("advice", [])]
    return Verdict(
        limit=data.get("limit"),
        confidence=data.get("confidence", 0.0),
        shares=dict(data.get("shares", {})),
        evidence=list(data.get("evidence", [])),
        innocent=list(data.get("innocent", [])),
        not_visible=list(data.get("not_visible", [])),
        missing=list(data.get("missing", [])),
        advice=advice,
    )
