"""Who asks: headers with secrets and the certificates that are trusted. Nothing here is ever printed.

Secrets come from files or the environment. What is wrong with one is said without what it holds.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aftershock.pipeline.metrics.live_rules import PrometheusConfig

# A secret longer than this is some other file.
_MOST_BYTES: Final = 64 << 10
_HEADER: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*)?)\Z")
# These are made for each request; a copy from a file would contradict them.
_OURS: Final = frozenset(
    {"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "accept-encoding"}
)


class BadAccess(Exception):
    """Access that cannot be had: one line that says what to do, without any secret."""


@dataclass(frozen=True)
class Access:
    """What goes along with each request."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)


def access_of(config: PrometheusConfig, folder: str, environment: Mapping[str, str] = os.environ) -> Access:
    """Read the secrets that the configuration names. ``folder``: where its relative paths start.

    Raises:
        BadAccess: a file or variable that is not there, or does not hold what it should.
    """
    headers: dict[str, str] = {}
    if config.headers_file:
        headers.update(_headers("headers_file", os.path.join(folder, config.headers_file)))
    ways = [name for name in ("bearer_token_file", "bearer_token_env", "basic_auth_file") if getattr(config, name)]
    if len(ways) > 1:
        raise BadAccess(f"[prometheus] has {' and '.join(ways)}: keep one of them")
    if config.bearer_token_file:
        token = _one_line("bearer_token_file", os.path.join(folder, config.bearer_token_file))
        headers["Authorization"] = f"Bearer {_token('bearer_token_file', token)}"
    elif config.bearer_token_env:
        token = environment.get(config.bearer_token_env, "").strip()
        if not token:
            raise BadAccess(f"bearer_token_env in [prometheus]: the variable {config.bearer_token_env} is not set")
        headers["Authorization"] = f"Bearer {_token('bearer_token_env', token)}"
    elif config.basic_auth_file:
        pair = _one_line("basic_auth_file", os.path.join(folder, config.basic_auth_file))
        if ":" not in pair:
            raise BadAccess("basic_auth_file in [prometheus]: the file must hold user:password in one line")
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
    return Access(headers, _context(config, folder))


def _context(config: PrometheusConfig, folder: str) -> ssl.SSLContext | None:
    if not (config.url or "").startswith("https:"):
        return None
    if not config.ca_file:
        return ssl.create_default_context()
    path = os.path.join(folder, config.ca_file)
    try:
        return ssl.create_default_context(cafile=path)
    except ssl.SSLError as error:
        raise BadAccess(f"ca_file in [prometheus]: {path} holds no certificates (PEM)") from error
    except OSError as error:
        raise BadAccess(f"ca_file in [prometheus]: {path}: {error.strerror or error}") from error


def _text(key: str, path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadAccess(f"{key} in [prometheus]: {path}: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise BadAccess(f"{key} in [prometheus]: {path} is too large for a secret")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Without the cause: it holds the bytes of the file.
        raise BadAccess(f"{key} in [prometheus]: {path} is no text") from None


def _one_line(key: str, path: str) -> str:
    lines = [line.strip() for line in _text(key, path).splitlines() if line.strip()]
    if len(lines) != 1:
        raise BadAccess(f"{key} in [prometheus]: {path} must hold one line, and holds {len(lines)}")
    return lines[0]


def _token(key: str, token: str) -> str:
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise BadAccess(f"{key} in [prometheus]: the token holds spaces or characters that no header can carry")
    return token


def _headers(key: str, path: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for number, line in enumerate(_text(key, path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _HEADER.match(line.strip())
        if found is None or found[1].lower() in _OURS:
            raise BadAccess(f"{key} in [prometheus]: {path}:{number}: no header that can be sent; write Name: value")
        headers[found[1]] = found[2]
    return headers
