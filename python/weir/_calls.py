"""Commands as functions: from arguments to the words of a command line, and to a record or an exception."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union

from . import _weir
from ._errors import Interrupted, UsageError, of_code
from ._record import Record

StrPath = Union[str, "os.PathLike[str]"]
"""A path of this machine."""

_Version = Tuple[Optional[str], Optional[str]]
"""ETag and Last-Modified of an object, as its server's fields have them."""


@dataclass(frozen=True)
class Progress:
    """How far a transfer is."""

    seconds: float
    """Since the start."""
    bytes: int
    """Bytes that are here, those of an earlier run included."""
    total: Optional[int]
    """Of how many, if all sizes are known."""
    rate: float
    """Bytes per second over the last second."""
    connections: int
    """Connections at work."""
    files_done: int
    """Files finished."""
    files: int
    """Of how many, as far as is known."""
    limit: Optional[str]
    """What limits it now."""


ProgressCallback = Callable[[Progress], object]
"""Called at most ten times a second, in the thread that called, and once more at the end. What it raises ends
the transfer as Ctrl-C does, and is raised by the call."""


def get(
    url: str,
    path: Optional[StrPath] = None,
    *,
    checksum: Union[str, Iterable[str], None] = None,
    lanes: Optional[int] = None,
    progress: Optional[ProgressCallback] = None,
    options: Iterable[str] = (),
) -> Record:
    """Downloads ``url`` to ``path``: ``weir get URL -o PATH``.

    The same call resumes an interrupted download. ``path`` is a file, or a folder that exists or ends in
    ``/``; None saves under the server's name into the current folder. ``checksum`` is ``ALG:HEX``, such as
    ``sha256:9f86...``, or several. ``lanes`` fixes the number of connections. ``options`` are further words
    of the command line, such as ``["--limit-rate", "10M"]``.

    Raises a :class:`WeirError` by the command's exit code, and :class:`Interrupted` after Ctrl-C.
    """
    words = ["get", *_checksums(checksum), *_number("lanes", lanes), *_options(options)]
    if path is not None:
        words.append(f"--output={_target(path)}")
    return _call([*words, "--", _text("url", url)], progress)


def get_many(
    urls: Iterable[Union[str, Tuple[str, StrPath]]],
    folder: StrPath,
    *,
    lanes: Optional[int] = None,
    jobs: Optional[int] = None,
    progress: Optional[ProgressCallback] = None,
    options: Iterable[str] = (),
) -> Record:
    """Downloads many files into ``folder``: ``weir get URL... -o FOLDER/``.

    Each of ``urls`` is a URL, which gets the server's name, or a pair of a URL and its name below the folder.
    ``jobs`` is how many files are fetched at once. If a file fails the others are fetched, then the exception
    of the exit code is raised; its ``record`` has every file.
    """
    if isinstance(urls, (str, bytes)):
        raise TypeError("urls must be a list of urls; weir.get fetches one")
    base = os.path.join(os.fspath(folder), "")
    named, outputs = [], []
    for one in urls:
        url, name = (one, None) if isinstance(one, str) else _pair(one)
        named.append(_text("url", url))
        outputs.append(base if name is None else _below(base, name))
    if not named:
        raise UsageError("nothing to fetch: urls is empty", 2)
    if all(output == base for output in outputs):
        outputs = [base]
    words = ["get", *_number("lanes", lanes), *_number("jobs", jobs), *_options(options)]
    words += [f"--output={_file(output)}" for output in outputs]
    return _call([*words, "--", *named], progress)


def put(
    source: Union[StrPath, Iterable[StrPath]],
    url: str,
    *,
    checksum: Optional[str] = None,
    lanes: Optional[int] = None,
    progress: Optional[ProgressCallback] = None,
    options: Iterable[str] = (),
) -> Record:
    """Uploads files or folders to an object store or a server: ``weir put SOURCE... URL``.

    ``checksum`` is the algorithm that the store checks parts with, such as ``sha256``. The same call resumes
    an interrupted upload.
    """
    one = isinstance(source, (str, os.PathLike))
    if source is None or isinstance(source, bytes):
        raise TypeError(f"source must be a path or a list of paths, not {type(source).__name__}")
    sources: List[Any] = [source] if one else list(source)  # type: ignore[arg-type]
    if not sources:
        raise UsageError("nothing to send: source is empty", 2)
    words = ["put", *_number("lanes", lanes), *_options(options)]
    if checksum is not None:
        words.append(f"--checksum={_text('checksum', checksum)}")
    return _call([*words, "--", *(_file(os.fspath(path)) for path in sources), _text("url", url)], progress)


def why(
    what: Union[int, str, Sequence[str]],
    *,
    seconds: Optional[float] = None,
    options: Iterable[str] = (),
) -> Record:
    """Explains another program's transfer: ``weir why --pid PID`` or ``weir why -- COMMAND``.

    ``what`` is a process's number, or a command to run, as a list or as a line that is split like a shell's.
    A process is watched for ``seconds`` (default 10) or until it ends, a command until it ends. What the
    command prints goes to stderr. Its exit code is ``record.to_dict()["why"]["exit_code"]``, and raises
    nothing.
    """
    words = ["why", *_seconds(seconds), *_options(options)]
    if isinstance(what, (bool, float)) or not isinstance(what, (int, str, SequenceOf)):
        raise TypeError(f"what must be a process's number or a command, not {type(what).__name__}")
    if isinstance(what, int):
        words.append(f"--pid={what}")
    else:
        command = _split(what) if isinstance(what, str) else list(what)
        words += ["--", *(_text("command", word) for word in command)]
    return _call(words, None, always=True)


def log_to_stderr(verbose: int = 0) -> None:
    """Sends weir's log to stderr from now on: warnings, with 1 decisions as well, with 2 everything."""
    _weir.log_to_stderr(max(0, min(int(verbose), 2)))


def _call(
    words: List[str],
    progress: Optional[ProgressCallback],
    always: bool = False,
    version: Optional[_Version] = None,
) -> Record:
    """Runs a command; with ``always`` its record is the answer whatever its exit code. A ``get`` of an object
    of which a ``version`` is known fails if that is another now."""
    look = None if progress is None else _teller(progress)
    code, text, error, raised = _weir.run(words, look, version)
    record = None if text is None else Record(text)
    if isinstance(raised, KeyboardInterrupt):
        raise Interrupted(error or "interrupted", record) from raised
    if raised is not None:
        raise raised
    if record is None or (code != 0 and not always):
        raise of_code(code, error, record)
    return record


def _teller(progress: ProgressCallback) -> Callable[[Tuple[Any, ...]], object]:
    if not callable(progress):
        raise TypeError(f"progress must be callable, not {type(progress).__name__}")
    return lambda look: progress(Progress(*look))


def _text(what: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise UsageError(f"{what} {value!r} holds a NUL", 2)
    return value


def _pair(one: Any) -> Tuple[str, StrPath]:
    try:
        url, name = one
    except (TypeError, ValueError):
        raise TypeError(f"each of urls must be a str or a pair of a url and a name, not {one!r}") from None
    return url, name


def _options(options: Iterable[str]) -> List[str]:
    if isinstance(options, str):
        raise TypeError("options must be a list of words, not a str; shlex.split parts a line")
    return [_text("an option", word) for word in options]


def _checksums(checksum: Union[str, Iterable[str], None]) -> List[str]:
    if checksum is None:
        return []
    one = [checksum] if isinstance(checksum, str) else list(checksum)
    return [f"--checksum={_text('checksum', text)}" for text in one]


def _split(line: str) -> List[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"cannot read the command {line!r}: {error}", 2) from None


def _seconds(seconds: Optional[float]) -> List[str]:
    return [] if seconds is None else [f"--for={float(seconds):f}s"]


def _number(name: str, value: Optional[int]) -> List[str]:
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    return [f"--{name}={value}"]


def _file(path: str) -> str:
    """A path is a file's, even where a command line means a stream by it or an option."""
    path = _text("path", os.fsdecode(path))
    return f"./{path}" if path.startswith("-") else path


def _target(path: StrPath) -> str:
    """A folder that exists is one without its slash, too: pathlib takes that away."""
    target = _file(os.fspath(path))
    return os.path.join(target, "") if target and os.path.isdir(target) else target


def _below(base: str, name: StrPath) -> str:
    text = _text("name", os.fsdecode(os.fspath(name)))
    parts = text.split("/")
    if not text or text.endswith("/") or any(part in ("", ".", "..") for part in parts):
        raise UsageError(f"name {text!r} would not stay in the folder", 2)
    target = os.path.join(base, text)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    return target
