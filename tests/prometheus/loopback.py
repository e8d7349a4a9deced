"""A real Prometheus on 127.0.0.1, and an exporter of two pretended hosts that it scrapes. It is ended by its own pid."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

PROGRAMS: Final = ("prometheus", "promtool")
PACKAGES: Final = "prometheus"
HOSTS: Final = ("gpu001", "gpu002")
INTERVAL_S: Final = 1

_CONFIG: Final = """\
global:
  scrape_interval: {interval}s
scrape_configs:
{jobs}"""
_JOB: Final = """\
  - job_name: {job}-{host}
    metrics_path: /{job}/{host}
    static_configs:
      - targets: ["127.0.0.1:{port}"]
    relabel_configs:
      - target_label: instance
        replacement: {instance}
      - target_label: job
        replacement: {job}
"""


def missing() -> str | None:
    """Why no Prometheus can be started here; None if one can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"no {' and no '.join(absent)} on this machine: apt-get install {PACKAGES}" if absent else None


class Exporter:
    """What two hosts show: a GPU each (behind an address that says nothing), and the host itself (``up``).

    hot: whether the GPU of the first host is hot. lost: whether its exporter has lost the GPU.
    """

    def __init__(self) -> None:
        self.hot = self.lost = False
        self._began = time.monotonic()
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exporter.page(*self.path.strip("/").split("/")).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.port = self._server.server_address[1]

    def page(self, job: str, host: str) -> str:
        """The metrics of a host."""
        seconds = time.monotonic() - self._began
        first = host == HOSTS[0]
        if job == "node":
            return f"node_load1 {seconds % 7:.3f}\nodd_gauge NaN\nendless_gauge +Inf\nbig_gauge 9.007199254740993e+15\n"
        if first and self.lost:
            return ""
        gpu = f'gpu="0",UUID="GPU-0000000{host[-1]}-0000-0000-0000-000000000000",Hostname="{host}",said="a\\"b\\\\c"'
        heat = 91 if first and self.hot else 40 + int(seconds) % 3
        energy = 1_000_000 + int(seconds * 7e5)
        return f"DCGM_FI_DEV_GPU_TEMP{{{gpu}}} {heat}\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{gpu}}} {energy}\n"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Prometheus:
    """``with Prometheus(folder) as server:``: it scrapes ``server.exporter`` every second."""

    def __init__(self, top: Path) -> None:
        self.data = top / "data"
        self._top = top
        self.exporter = Exporter()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{address}"
        top.mkdir(parents=True, exist_ok=True)
        jobs = [
            _JOB.format(job=job, host=host, port=self.exporter.port, instance=instance)
            for number, host in enumerate(HOSTS)
            for job, instance in (("node", f"{host}:9100"), ("dcgm", f"10.0.0.{number}:9400"))
        ]
        (top / "prometheus.yml").write_text(_CONFIG.format(interval=INTERVAL_S, jobs="".join(jobs)))
        self._said = (top / "prometheus.said").open("wb")
        self._process = subprocess.Popen(
            [
                *("prometheus", f"--config.file={top}/prometheus.yml", f"--storage.tsdb.path={self.data}"),
                *(f"--web.listen-address={address}", "--web.enable-admin-api", "--log.level=warn"),
            ],
            stdout=self._said,
            stderr=self._said,
            cwd=top,
        )

    def __enter__(self) -> Prometheus:
        try:
            self.until(self._ready, "the server")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()
        self.exporter.close()

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Wait for something.

        Raises:
            TimeoutError: it did not come.
        """
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or self._process.poll() is not None:
                said = (self._top / "prometheus.said").read_text(errors="replace")[-2000:]
                raise TimeoutError(f"{what}: not within {seconds:.0f} s; it said: {said}")
            time.sleep(0.2)

    def ask(self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, **fields: str) -> bytes:
        """The body of an answer; a POST where there is a body."""
        url = f"{self.url}{path}{f'?{urlencode(fields)}' if fields else ''}"
        # Straight to the server, whatever proxy the environment names.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(url, body, headers or {}), timeout=30) as response:
            data: bytes = response.read()
        return data

    def value(self, query: str) -> float | None:
        """The present value of an expression, None if it has none."""
        result: list[Any] = json.loads(self.ask("/api/v1/query", query=query))["data"]["result"]
        return float(result[0]["value"][1]) if result else None

    def snapshot(self) -> Path:
        """All samples as blocks, in a folder."""
        name = json.loads(self.ask("/api/v1/admin/tsdb/snapshot", b""))["data"]["name"]
        return self.data / "snapshots" / str(name)

    def _ready(self) -> bool:
        with suppress(OSError):
            return bool(self.ask("/-/ready"))
        return False
