"""A server of metrics that tests pretend: it evaluates range selectors over samples it is given, or behaves badly."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

Labels = Mapping[str, str]

_MATCHER = re.compile(r'(\w+)(=~|!~)"((?:[^"\\]|\\.)*)"')
_RANGE = re.compile(r"\[(\d+)ms\]\Z")


@dataclass(frozen=True)
class Request:
    """What was asked: path, fields, headers (names in lower case)."""

    path: str
    form: Mapping[str, str]
    headers: Mapping[str, str]
    method: str


@dataclass(frozen=True)
class Reply:
    """An answer. ``cut``: bytes that are announced and never sent. ``slow_s``: before it, or between its two halves."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    cut: int = 0
    slow_s: float = 0.0
    drips: bool = False


@dataclass
class Pretended:
    """Series by labels to (milliseconds, value). ``behave`` may answer instead; None lets the samples answer."""

    series: Sequence[tuple[Labels, Sequence[tuple[int, float]]]] = ()
    behave: Callable[[Request], Reply | None] = lambda _: None
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    def queries(self) -> list[Request]:
        return [request for request in self.requests if request.path.endswith("/query")]

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = self.behave(request)
        if reply is not None:
            return reply
        if request.path.endswith("/api/v1/labels"):
            names = sorted({name for labels, _ in self.series for name in labels})
            return Reply(body=json.dumps({"status": "success", "data": names}).encode())
        if request.path.endswith("/api/v1/query"):
            return Reply(body=json.dumps(self.evaluated(request.form)).encode())
        return Reply(404, b"no such page", {"Content-Type": "text/plain"})

    def evaluated(self, form: Mapping[str, str]) -> object:
        """The answer to a range selector. Both ends belong to it, as before Prometheus 3."""
        query = form["query"]
        span = _RANGE.search(query)
        assert span is not None, query
        end = round(float(form["time"]) * 1000)
        begin = end - int(span[1])
        matchers = [(name, how, json.loads(f'"{value}"')) for name, how, value in _MATCHER.findall(query)]
        result = []
        for labels, samples in self.series:
            if all((how == "=~") == bool(re.fullmatch(value, labels.get(name, ""))) for name, how, value in matchers):
                values = [[time / 1000, str(value)] for time, value in samples if begin <= time <= end]
                if values:
                    result.append({"metric": dict(labels), "values": values})
        return {"status": "success", "data": {"resultType": "matrix", "result": result}}


@contextmanager
def serving(pretended: Pretended) -> Iterator[Pretended]:
    """The server on a free port of 127.0.0.1, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.reply(body.decode("latin-1"))

        def do_GET(self) -> None:
            self.reply(urlsplit(self.path).query)

        def reply(self, fields: str) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(urlsplit(self.path).path, dict(parse_qsl(fields)), headers, self.command)
            reply = pretended.answer(request)
            if not reply.drips:
                time.sleep(reply.slow_s)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + reply.cut))
            self.end_headers()
            try:
                if reply.drips:
                    for byte in reply.body:
                        self.wfile.write(bytes([byte]))
                        time.sleep(reply.slow_s)
                else:
                    self.wfile.write(reply.body)
            except OSError:
                pass  # who asked went away
            if reply.cut:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    pretended.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield pretended
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
