"""A server of files for the tests: ranges, validators, a rate, and what a test wants to go wrong."""

from __future__ import annotations

import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Optional, Tuple

Answer = Tuple[int, Dict[str, str], bytes]


class Server:
    """Serves ``files``, path to bytes. ``asked`` has method, path and fields of each request. An empty field
    is left out."""

    def __init__(self) -> None:
        self.files: Dict[str, bytes] = {}
        self.fields: Dict[str, Dict[str, str]] = {}
        self.answers: Dict[str, Answer] = {}
        self.stored: Dict[str, bytes] = {}
        self.asked: List[Tuple[str, str, Dict[str, str]]] = []
        self.head: Optional[int] = None
        """The status of every answer to HEAD, of a server that refuses that."""
        self.rate: Optional[float] = None
        """Bytes a second of each connection."""
        self.after: Callable[[int], None] = lambda sent: None
        """Called with the bytes of an answer that were sent so far."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    def __enter__(self) -> "Server":
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def url(self, path: str) -> str:
        return self.base + path

    def etag(self, path: str) -> str:
        return f'"{hashlib.md5(self.files[path]).hexdigest()}"'


def _handler(server: Server) -> Any:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            if server.head is not None:
                self._note()
                return self._say(server.head, {}, b"", False)
            self._answer(False)

        def do_GET(self) -> None:
            self._answer(True)

        def do_POST(self) -> None:
            # What a hub is asked so is known by its path alone.
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self._answer(True)

        def do_PUT(self) -> None:
            self._note()
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = self.path.split("?")[0]
            server.stored[path] = body
            self._say(201, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b"", True)

        def _note(self) -> None:
            server.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))

        def _answer(self, has_body: bool) -> None:
            self._note()
            path = self.path.split("?")[0]
            if path in server.answers:
                return self._say(*server.answers[path], has_body)
            data = server.files.get(path)
            if data is None:
                return self._say(404, {}, b"no such file", has_body)
            fields = {"ETag": server.etag(path), "Accept-Ranges": "bytes", **server.fields.get(path, {})}
            wanted = self.headers.get("if-match")
            if wanted is not None and wanted != fields["ETag"]:
                return self._say(412, fields, b"", has_body)
            same = self.headers.get("if-range", fields["ETag"]) == fields["ETag"]
            part = self.headers.get("range", "") if same else ""
            if not part.startswith("bytes="):
                return self._say(200, fields, data, has_body)
            first, last = part[6:].split("-")
            begin = int(first) if first else max(len(data) - int(last), 0)
            end = min(int(last) if first and last else len(data) - 1, len(data) - 1)
            if begin >= len(data):
                return self._say(416, {"Content-Range": f"bytes */{len(data)}"}, b"", has_body)
            fields["Content-Range"] = f"bytes {begin}-{end}/{len(data)}"
            self._say(206, fields, data[begin : end + 1], has_body)

        def _say(self, status: int, fields: Dict[str, str], body: bytes, has_body: bool) -> None:
            self.send_response(status)
            fields = {"Content-Length": str(len(body)), **fields}
            if not fields["Content-Length"]:
                # The end of the connection is the end of the body.
                fields["Connection"] = "close"
            for name, value in fields.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            if not has_body:
                return
            try:
                self._send(body)
            except OSError:
                self.close_connection = True

        def _send(self, body: bytes) -> None:
            step = 64 << 10 if server.rate is None else max(1, int(server.rate / 50))
            began = time.monotonic()
            for at in range(0, len(body), step):
                self.wfile.write(body[at : at + step])
                sent = min(at + step, len(body))
                server.after(sent)
                if server.rate is not None:
                    time.sleep(max(0.0, began + sent / server.rate - time.monotonic()))

    return Handler
