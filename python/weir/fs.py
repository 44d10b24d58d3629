"""A file system of fsspec that reads ranges by weir: ``weir+https://HOST/PATH``, ``weir+s3://BUCKET/KEY``.

    >>> import fsspec
    >>> with fsspec.open("weir+https://host/table.parquet") as file:  # doctest: +SKIP
    ...     file.seek(-8, 2)
    ...     file.read()

Ranges of a file that is open are of one version: if the object's ETag or Last-Modified changes, reading
raises. A URL is taken letter by letter: its ``*``, ``?`` and ``[`` are no pattern. It needs the package
fsspec.
"""

from __future__ import annotations

import errno
import os
import tempfile
from typing import Any, Dict, Iterable, List, Optional

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from . import _weir
from ._calls import Progress, ProgressCallback, _call, _options, _Version
from ._errors import Interrupted, TransferError, UsageError, WeirError, of_code

_PREFIX = "weir+"

PROTOCOLS = tuple(_PREFIX + scheme for scheme in ("http", "https", "s3", "gs", "az"))
"""The schemes that fsspec knows this file system by, once weir is installed."""

_MEMORY = "/dev/shm"
"""A file system in memory, where there is one. A container's has 64 MiB by default."""

_FULL = "no space left on device"
"""What the command says of a full file system."""


class WeirFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Objects by their URLs, to be read. ``options`` are words of ``weir get`` for each request."""

    protocol = PROTOCOLS
    root_marker = ""

    def __init__(self, options: Iterable[str] = (), **storage_options: Any) -> None:
        super().__init__(**storage_options)
        self.options: List[str] = _options(options)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = os.fspath(path)
        return text[len(_PREFIX) :] if text.startswith(_PREFIX) else text

    def unstrip_protocol(self, name: str) -> str:
        return name if name.startswith(_PREFIX) else _PREFIX + name

    @classmethod
    def _parent(cls, path: str) -> str:
        return str(path).rstrip("/").rsplit("/", 1)[0]

    def info(self, path: str, **kwargs: Any) -> Dict[str, Any]:
        """``name``, ``size``, ``type``, ``ETag``, ``mtime``, ``partial`` (the server offers ranges)."""
        url = self._strip_protocol(path)
        code, facts, error, raised = _weir.describe(["get", *self.options, "--", url])
        if isinstance(raised, KeyboardInterrupt):
            raise Interrupted(error or "interrupted") from raised
        if raised is not None:
            raise raised
        if code != 0:
            raise of_code(code, error, None)
        if facts is None:
            raise FileNotFoundError(errno.ENOENT, "the server has no such object", url)
        size, etag, modified, partial = facts
        return {
            "name": url,
            "size": size,
            "type": "file",
            "ETag": etag,
            "mtime": modified,
            "partial": partial,
        }

    def exists(self, path: str, **kwargs: Any) -> bool:
        """False where the server says that there is no such object; raises where it does not answer."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isfile(self, path: str) -> bool:
        return self.exists(path)

    def isdir(self, path: str) -> bool:
        return False

    def expand_path(self, path: Any, *_: Any, **kwargs: Any) -> List[str]:
        """The URLs themselves: they are no patterns, and a server does not say what lies below one."""
        paths = [path] if isinstance(path, (str, os.PathLike)) else path
        return sorted({self._strip_protocol(one) for one in paths})

    def glob(self, path: str, maxdepth: Optional[int] = None, **kwargs: Any) -> Any:
        """The object alone, if it is there."""
        try:
            info = self.info(path)
        except FileNotFoundError:
            return {} if kwargs.get("detail") else []
        return {info["name"]: info} if kwargs.get("detail") else [info["name"]]

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        """The object alone: a server does not say what lies below a URL."""
        info = self.info(path)
        return [info] if detail else [info["name"]]

    def cat_file(
        self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any
    ) -> bytes:
        """The bytes from ``start`` to before ``end``; negative numbers count from the end."""
        if start is None and end is None:
            return self._fetch(self._strip_protocol(path), [])
        info = self.info(path)
        first, behind, _ = slice(start, end).indices(_size(info))
        return self._range(info, first, behind)

    def get(self, rpath: Any, lpath: Any, *args: Any, **kwargs: Any) -> Any:
        """Downloads one URL to a file or into a folder, or several into a folder: by :meth:`get_file`."""
        if isinstance(rpath, (str, os.PathLike)) and isinstance(lpath, (str, os.PathLike)):
            # fsspec takes the target of what looks like a pattern for a folder.
            rpath, lpath = [self._strip_protocol(rpath)], [os.path.expanduser(os.fspath(lpath))]
        return super().get(rpath, lpath, *args, **kwargs)

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, **kwargs: Any) -> None:
        """Downloads it by as many connections as help, resumable: ``weir.get``."""
        from ._calls import get

        folder = os.path.dirname(os.fspath(lpath))
        if folder:
            os.makedirs(folder, exist_ok=True)
        get(self._strip_protocol(rpath), lpath, progress=_teller(callback), options=self.options)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> "WeirFile":
        if mode != "rb":
            raise UsageError(
                f"cannot open {path} with mode {mode!r}: it can be read, with 'rb'; weir.put writes", 2
            )
        info = self.info(path)
        # A file that was pickled names the size that it had.
        kwargs["size"] = _size(info)
        return WeirFile(
            info, self, path, mode, block_size or "default", autocommit, cache_options=cache_options, **kwargs
        )

    def _range(self, info: Dict[str, Any], first: int, behind: int) -> bytes:
        length = behind - first
        if length <= 0:
            return b""
        version = (info["ETag"], info["mtime"])
        data = self._fetch(info["name"], [f"--range={first}-{behind - 1}"], length, version)
        if len(data) != length:
            raise TransferError(f"{info['name']}: {len(data)} bytes came for a range of {length}")
        return data

    def _fetch(
        self, url: str, words: List[str], length: Optional[int] = None, version: Optional[_Version] = None
    ) -> bytes:
        memory = _memory_for(length)
        if memory is not None:
            try:
                return self._fetch_into(memory, url, words, version)
            # Others fill it as well.
            except WeirError as error:
                if _FULL not in error.message:
                    raise
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        return self._fetch_into(None, url, words, version)

    def _fetch_into(
        self, where: Optional[str], url: str, words: List[str], version: Optional[_Version]
    ) -> bytes:
        with tempfile.TemporaryDirectory(prefix="weir-", dir=where) as folder:
            target = os.path.join(folder, "range")
            words = ["get", *self.options, *words, f"--output={target}", "--any-type", "--", url]
            _call(words, None, version=version)
            with open(target, "rb") as file:
                return file.read()


class WeirFile(AbstractBufferedFile):  # type: ignore[misc]
    """An open object, of the version that ``info`` describes."""

    def __init__(self, info: Dict[str, Any], *args: Any, **kwargs: Any) -> None:
        # Before all else: some caches fetch while they are set up.
        self._details = info
        super().__init__(*args, **kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs._range(self.details, start, min(end, self.size))
        return data


def _teller(callback: Any) -> Optional[ProgressCallback]:
    """Reports the progress of a transfer to a callback of fsspec."""
    if callback is None:
        return None

    def tell(now: Progress) -> None:
        callback.set_size(now.total)
        callback.absolute_update(now.bytes)

    return tell


def _size(info: Dict[str, Any]) -> int:
    if info["size"] is None:
        raise TransferError(
            f"{info['name']}: the server does not say its size, so ranges of it cannot be read; get it whole"
        )
    return int(info["size"])


def _memory_for(length: Optional[int]) -> Optional[str]:
    """The file system in memory, if it has room for twice as many bytes: it is not this process's alone."""
    if length is None or not os.access(_MEMORY, os.W_OK):
        return None
    room = os.statvfs(_MEMORY)
    return _MEMORY if room.f_bavail * room.f_frsize >= 2 * length else None
