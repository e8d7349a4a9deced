"""The secret that pseudonyms are made with. It is read once, kept in memory and never shown."""

from __future__ import annotations

import hmac
import os
import stat
from dataclasses import dataclass, field
from typing import Final

# Below this a key can be found by trying; what `openssl rand -hex 32` prints has 64.
LEAST_BYTES: Final = 16

# More is a log or a device given by mistake.
MOST_BYTES: Final = 1 << 16

# 48 bits: among a hundred thousand names the chance that two share a pseudonym is 1 in 56 000.
_NAME_DIGITS: Final = 12


class BadKey(Exception):
    """A key file that cannot be used: one line without anything that stands in the file."""


@dataclass(frozen=True)
class Key:
    """Digests that only the owner of the key can make."""

    secret: bytes = field(repr=False)

    def digest(self, text: str, digits: int = _NAME_DIGITS) -> str:
        """The first hexadecimal digits (64 at most) of the keyed digest (HMAC, SHA-256) of a text."""
        return hmac.digest(self.secret, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:digits]


def read_key(path: str) -> Key:
    """The key in a file, a line end at its end aside.

    Raises:
        BadKey: there is no such file, it cannot be read, or it is too short or too long for a key.
    """
    try:
        # A pipe is a key that a password manager prints: <(pass show key).
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise BadKey(f"{path}: is no file")
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadKey(f"{path}: {error.strerror or error}") from error
    secret = content.rstrip(b"\r\n")
    if len(content) > MOST_BYTES:
        raise BadKey(f"{path}: is too long for a key: more than {MOST_BYTES} bytes")
    if len(secret) < LEAST_BYTES:
        raise BadKey(
            f"{path}: is too short for a key: {len(secret)} bytes, at least {LEAST_BYTES} are needed; "
            f"openssl rand -hex 32 makes one"
        )
    if len(set(secret)) == 1:
        raise BadKey(f"{path}: is no key: all its bytes are equal")
    return Key(secret)
