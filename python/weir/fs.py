"""A file system of fsspec that reads ranges by weir: ``weir+https://HOST/PATH``, ``weir+s3://BUCKET/KEY``.

    >>> import fsspec
    >>> with fsspec.open("weir+https://host/table.parquet") as file:  # doctest: +SKIP
    ...     file.seek(-8, 2)
    ...     file.read()

Ranges of a file that is open are of one version: if the object changes, reading raises. It needs the package
fsspec.
"""

from __future__ import annotations

import errno
import os
import tempfile
from typing import Any, Dict, Iterable, List, Optional

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from . import _weir
from ._calls import _call, _options
from ._errors import Interrupted, TransferError, UsageError, of_code

_PREFIX = "weir+"

PROTOCOLS = tuple(_PREFIX + scheme for scheme in ("http", "https", "s3", "gs", "az"))
"""The schemes that fsspec knows this file system by, once weir is installed."""


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

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, **kwargs: Any) -> None:
        """Downloads it by as many connections as help, resumable: ``weir.get``."""
        from ._calls import get

        get(self._strip_protocol(rpath), lpath, options=self.options)

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
        return WeirFile(
            self, path, mode, block_size or "default", autocommit, cache_options=cache_options, **kwargs
        )

    def _range(self, info: Dict[str, Any], first: int, behind: int) -> bytes:
        if behind <= first:
            return b""
        data = self._fetch(info["name"], [f"--range={first}-{behind - 1}", *_same(info)])
        if len(data) != behind - first:
            raise TransferError(f"{info['name']}: {len(data)} bytes came for a range of {behind - first}")
        return data

    def _fetch(self, url: str, words: List[str]) -> bytes:
        # In memory where the system has a file system for that.
        where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="weir-", dir=where) as folder:
            target = os.path.join(folder, "range")
            _call(["get", *self.options, *words, f"--output={target}", "--any-type", "--", url], None)
            with open(target, "rb") as file:
                return file.read()


class WeirFile(AbstractBufferedFile):  # type: ignore[misc]
    """An open object."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs._range(self.details, start, min(end, self.size))
        return data


def _size(info: Dict[str, Any]) -> int:
    if info["size"] is None:
        raise TransferError(
            f"{info['name']}: the server does not say its size, so ranges of it cannot be read; get it whole"
        )
    return int(info["size"])


def _same(info: Dict[str, Any]) -> List[str]:
    """The condition that the object is still the same (RFC 9110, section 13.1)."""
    etag, modified = info["ETag"], info["mtime"]
    if etag is not None and not etag.startswith("W/"):
        return [f"--header=If-Match: {etag}"]
    return [] if modified is None else [f"--header=If-Unmodified-Since: {modified}"]
