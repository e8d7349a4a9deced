"""One question to a server of metrics: sent, waited for, asked again where that may help, and never followed elsewhere.

A server is asked while a cluster is on fire: each request has an end, tries are few and further apart each time, and
what it says it wants (``Retry-After``) is done. Redirects are not followed, because secrets would go along.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import orjson
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from aftershock.parsers.redact import redact
from aftershock.pipeline.metrics.live_access import Access
from aftershock.pipeline.metrics.live_rules import PrometheusConfig

REFUSED: Final = "refused"  # the server does not like this question
TOO_LARGE: Final = "too large"  # half of it may do
AWAY: Final = "away"  # no answer, or no whole one, after all tries
OTHER: Final = "other"  # this way of asking is not offered
SLOW: Final = "slow"  # so may this: it is not asked again as it is
STOP: Final = "stop"  # whatever is asked next will not do either

JSON: Final = "application/json"

_PIECE: Final = 256 << 10
_MOST_ERROR: Final = 64 << 10
_MOST_WORDS: Final = 300
_LONGEST_PAUSE_S: Final = 60.0
_CONNECT_S: Final = 10.0
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_LARGE: Final = re.compile(
    r"too many (?:samples|series|points|chunks|bytes)|exceed\w* (?:the |a )?(?:\w+ ){0,4}limit"
    r"|the query (?:hit|exceeded)|limit on the number|maxSamples",
    re.IGNORECASE,
)
_SLOW: Final = re.compile(r"timed? ?out|deadline", re.IGNORECASE)
_TAGS: Final = re.compile(r"<[^<>]{0,200}>")


class Trouble(Exception):
    """No answer: why, in one line without secrets, and of which kind."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class Question:
    """A request below the address of the server.

    form: fields, sent in the body (or in the address, where the server takes no other). body: sent as it is.
    accepted: how the content type of a good answer begins.
    """

    path: str
    form: Mapping[str, str] | None = None
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    accepted: str = JSON


class Server:
    """Asks one server. Several threads may ask at once."""

    def __init__(self, config: PrometheusConfig, access: Access) -> None:
        self._url = config.url or ""
        self._config = config
        self._access = access
        self._pool = _pool(self._url, access, config)
        self._given_up = threading.Event()
        self._method = "POST"

    def give_up(self) -> None:
        """Let no thread wait for another try."""
        self._given_up.set()

    def ask(self, question: Question, most_bytes: int, begin: Callable[[], Callable[[bytes], object]]) -> int:
        """Send a question and pass its answer on, piece by piece. Returns how many bytes it had.

        ``begin`` is called before the first piece of each try; what an earlier try gave is void by then.

        Raises:
            Trouble: there is no whole answer.
        """
        number = 1
        while True:
            again = self._tried(question, most_bytes, begin)
            if isinstance(again, int):
                return again
            if number > self._config.retries or self._given_up.is_set():
                raise Trouble(f"{again}{f' (tried {number} times)' if number > 1 else ''}", AWAY)
            self._given_up.wait(self._pause(number, again.after_s))
            number += 1

    def _tried(
        self, question: Question, most_bytes: int, begin: Callable[[], Callable[[bytes], object]]
    ) -> int | _Again:
        try:
            return self._once(question, most_bytes, begin)
        except _Again as again:
            return again
        except ReadTimeoutError:
            raise Trouble(f"no answer within {self._config.timeout_s:g} s", SLOW) from None
        except HTTPError as error:
            return _Again(_words(error, self._config.timeout_s))

    def _pause(self, number: int, asked_for: float | None) -> float:
        pause = self._config.backoff_s * 2 ** (number - 1)
        # Apart from each other, so that threads do not knock at the same moment.
        pause *= 1 + random.random() / 2
        return float(min(_LONGEST_PAUSE_S, max(pause, asked_for or 0.0)))

    def _once(self, question: Question, most_bytes: int, begin: Callable[[], Callable[[bytes], object]]) -> int:
        end = time.monotonic() + self._config.timeout_s
        response = self._send(question)
        try:
            if response.status != 200:
                self._refused(question, response)
            kind = response.headers.get("Content-Type", "")
            if not kind.startswith(question.accepted):
                text = f"the server answered with {kind[:60] or 'no content type'} instead of {question.accepted}"
                raise Trouble(self._clean(text), OTHER)
            return self._pass_on(response, end, most_bytes, begin())
        finally:
            response.close()

    def _send(self, question: Question) -> urllib3.BaseHTTPResponse:
        headers = {
            "User-Agent": "aftershock",
            **self._access.headers,
            "Accept-Encoding": "gzip",
            **(question.headers or {}),
        }
        body, url, method = question.body, f"{self._url}{question.path}", "POST"
        if question.form is not None:
            fields, method = urlencode(question.form), self._method
            if method == "POST":
                headers["Content-Type"] = "application/x-www-form-urlencoded"
                body = fields.encode("ascii")
            else:
                url = f"{url}?{fields}"
        seconds = self._config.timeout_s
        response = self._pool.urlopen(
            method,
            url,
            body=body or None,
            headers=headers,
            redirect=False,
            retries=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=min(_CONNECT_S, seconds), read=seconds),
        )
        if response.status == 405 and question.form is not None and method == "POST":
            response.close()
            self._method = "GET"
            return self._send(question)
        return response

    def _pass_on(
        self, response: urllib3.BaseHTTPResponse, end: float, most_bytes: int, write: Callable[[bytes], object]
    ) -> int:
        done = 0
        while data := response.read1(_PIECE):
            done += len(data)
            if done > most_bytes:
                raise Trouble(f"the answer is longer than {most_bytes} bytes", TOO_LARGE)
            if time.monotonic() > end:
                raise Trouble(f"the answer was not whole within {self._config.timeout_s:g} s", SLOW)
            write(data)
        return done

    def _refused(self, question: Question, response: urllib3.BaseHTTPResponse) -> None:
        status = response.status
        said = self._clean(_error_text(response))
        text = f"the server answered {status}{f': {said}' if said else ''}"
        if _LARGE.search(said) or status == 413:
            raise Trouble(text, TOO_LARGE)
        if _SLOW.search(said) or status == 504:
            # What took too long takes as long the next time.
            raise Trouble(text, SLOW)
        if status in _AGAIN:
            raise _Again(text, _seconds(response.headers.get("Retry-After")))
        if question.form is None and status not in (401, 407):
            raise Trouble(text, OTHER)
        if status in (401, 403, 407):
            hint = "give bearer_token_file, bearer_token_env, basic_auth_file or headers_file in [prometheus]"
            raise Trouble(f"{text}; {hint}" if not self._access.headers else f"{text}; is the secret right?", STOP)
        if 300 <= status < 400:
            place = urlsplit(response.headers.get("Location", ""))
            where = self._clean(f"{place.scheme}://{place.hostname}{place.path}") if place.hostname else "another path"
            raise Trouble(f"the server answered {status} and points to {where}: write its address as url", STOP)
        if status == 404:
            raise Trouble(f"{text}; is the path of the server missing in url?", STOP)
        raise Trouble(text, REFUSED)

    def _clean(self, text: str) -> str:
        """One line without our secrets, should the server repeat them."""
        for value in self._access.headers.values():
            for secret in (value, value.partition(" ")[2]):
                if len(secret) > 2:
                    text = text.replace(secret, "***")
        return redact(" ".join(text.split()))[:_MOST_WORDS]


class _Again(Exception):
    """It may help to ask again; ``after_s``: as soon as the server says."""

    def __init__(self, text: str, after_s: float | None = None) -> None:
        super().__init__(text)
        self.after_s = after_s


def _pool(url: str, access: Access, config: PrometheusConfig) -> urllib3.PoolManager:
    """Connections: directly, or through the proxy of the environment where it names one for this server."""
    parts = urlsplit(url)
    given: dict[str, Any] = {"maxsize": config.concurrency, "ssl_context": access.context}
    proxy = None if _is_here(parts.hostname) or proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    if not proxy:
        return urllib3.PoolManager(**given)
    at = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    pair = f"{at.username}:{at.password or ''}" if at.username else None
    try:
        return urllib3.ProxyManager(
            f"{at.scheme}://{at.netloc.rpartition('@')[2]}",
            proxy_headers=urllib3.make_headers(proxy_basic_auth=pair) if pair else None,
            **given,
        )
    except (LocationParseError, ValueError):
        raise Trouble("the proxy that the environment names is no address", STOP) from None


def _is_here(host: str | None) -> bool:
    return host in ("localhost", "::1") or (host or "").startswith("127.")


def _words(error: HTTPError, timeout_s: float) -> str:
    """What went wrong, without addresses that may hold more than they should."""
    if isinstance(error, SSLError):
        return f"TLS: {str(error)[:_MOST_WORDS]}"
    if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return f"no connection within {min(_CONNECT_S, timeout_s):g} s"
    if isinstance(error, NewConnectionError):
        return f"no connection: {str(error).rpartition(': ')[2][:_MOST_WORDS]}"
    if isinstance(error, ProtocolError):
        return "the connection broke off before the answer was whole"
    return f"no answer: {type(error).__name__}"


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.strip().isdigit() and len(text) < 6 else None


def _error_text(response: urllib3.BaseHTTPResponse) -> str:
    """What the server says to a question that it does not answer."""
    data = b""
    try:
        while len(data) < _MOST_ERROR and (piece := response.read1(_MOST_ERROR)):
            data += piece
    except HTTPError:
        pass  # what came of it is enough
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _TAGS.sub(" ", data.decode("utf-8", "replace"))
    said = answer.get("error") or answer.get("message") if isinstance(answer, dict) else None
    return said if isinstance(said, str) else ""
