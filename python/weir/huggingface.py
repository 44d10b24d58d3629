"""Downloads of huggingface_hub, and of what stands on it (transformers, datasets), by weir.

    >>> import weir.huggingface
    >>> weir.huggingface.install()
    >>> from huggingface_hub import snapshot_download
    >>> snapshot_download("org/model")  # doctest: +SKIP

Names, revisions, the cache's layout and its locks stay huggingface_hub's own; weir moves the bytes of each
file into the cache, over as many connections as help, resumes what an earlier process left, and checks the
digest that the hub names.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

from ._calls import Progress, _options, get
from ._record import Record

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
"""The ETag of a file in LFS is its digest; of others it is the name of a git blob."""

_lock = threading.Lock()
_before: Optional[Callable[..., None]] = None
_words: List[str] = []
_seen: Optional[Callable[[Record], object]] = None


def install(*, options: Iterable[str] = (), record: Optional[Callable[[Record], object]] = None) -> None:
    """From now on every download of huggingface_hub in this process is weir's.

    ``options`` are words of the command line of ``weir get``; ``record`` is called with the record of each
    file. Raises ImportError where huggingface_hub is missing, or is a version whose downloads cannot be taken over.
    """
    global _before, _words, _seen
    from huggingface_hub import file_download

    with _lock:
        if not callable(getattr(file_download, "_download_to_tmp_and_move", None)):
            raise ImportError(
                "this huggingface_hub has no file_download._download_to_tmp_and_move, which weir takes over; "
                "install another version, such as 2.4.0"
            )
        _words, _seen = _options(options), record
        if _before is None:
            _before = file_download._download_to_tmp_and_move
            file_download._download_to_tmp_and_move = _download


def uninstall() -> None:
    """Downloads are huggingface_hub's own again."""
    global _before
    from huggingface_hub import file_download

    with _lock:
        if _before is not None:
            file_download._download_to_tmp_and_move = _before
            _before = None


@contextlib.contextmanager
def installed(**arguments: Any) -> Iterator[None]:
    """As :func:`install`, for the length of a ``with``."""
    install(**arguments)
    try:
        yield
    finally:
        uninstall()


def _download(
    incomplete_path: Path,
    destination_path: Path,
    url_to_download: str,
    headers: Dict[str, str],
    expected_size: Optional[int],
    filename: str,
    force_download: bool,
    etag: Optional[str] = None,
    xet_file_data: Any = None,
    tqdm_class: Any = None,
    **_: Any,
) -> None:
    """In place of ``huggingface_hub.file_download._download_to_tmp_and_move``."""
    if destination_path.exists() and not force_download:
        return
    words = [*_words, *(_field(name, value) for name, value in headers.items())]
    if force_download:
        words.append("--force")
    with _bar(filename, expected_size, tqdm_class) as tell:
        record = get(
            url_to_download,
            destination_path,
            checksum=f"sha256:{etag}" if etag is not None and _SHA256.match(etag) else None,
            progress=tell,
            options=[*words, "--any-type"],
        )
    size = destination_path.stat().st_size
    if expected_size is not None and size != expected_size:
        destination_path.unlink()
        raise OSError(
            f"Consistency check failed: file should be of size {expected_size} but has size {size} ({filename})."
        )
    if _seen is not None:
        _seen(record)


def _field(name: str, value: str) -> str:
    # Without a value it would be a field that is left out.
    return f"--header={name}: {value}" if str(value).strip() else f"--header={name};"


@contextlib.contextmanager
def _bar(name: str, total: Optional[int], tqdm_class: Any) -> Iterator[Callable[[Progress], None]]:
    """huggingface_hub's progress bar, fed by weir's progress."""
    hub: Any = importlib.import_module("huggingface_hub.file_download")
    shown = 0
    level = hub.logger.getEffectiveLevel()
    context: Any = contextlib.nullcontext()
    # A version that names it otherwise has no bar, and downloads all the same.
    with contextlib.suppress(AttributeError, TypeError):
        context = hub._get_progress_bar_context(
            desc=name if len(name) <= 40 else f"(…){name[-40:]}",
            log_level=level,
            total=total,
            initial=0,
            name="huggingface_hub.http_get",
            tqdm_class=tqdm_class,
        )
    with context as bar:

        def advance(count: int) -> None:
            nonlocal shown
            if bar is not None and count > shown:
                bar.update(count - shown)
                moved = getattr(bar, "update_transfer", None)
                if callable(moved):
                    moved(count - shown)
                shown = count

        yield lambda now: advance(now.bytes)
        advance(total or 0)
