"""Finds credentials that must not get into a checkpoint, by name and by shape (SEC-7).

Shapes are whole secrets, not their first words: a conversation may speak of keys, and a checkpoint that is refused for a mention would
cost more than it protects. Cheap searches for a fixed word come first, so that a clean block costs little.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LOGIN_FILES = frozenset(
    {b"auth.json", b".credentials.json", b".netrc", b".git-credentials", b"id_rsa", b"id_dsa", b"id_ecdsa", b"id_ed25519"}
)
"""Names under which programs keep logins, wherever they lie."""

OVERLAP = 4 << 10
"""Bytes of the block before that are looked at again: the longest known shape, a private key's first part, may lie across blocks."""


@dataclass(frozen=True, slots=True)
class _Shape:
    what: str
    word: bytes
    pattern: re.Pattern[bytes]


def _token(prefix: bytes, rest: bytes) -> re.Pattern[bytes]:
    """Return a pattern for a token that begins a word: base64 text may hold any prefix in its middle."""
    return re.compile(rb"(?<![A-Za-z0-9_\-])" + prefix + rest)


_SHAPES = (
    _Shape(
        "a private key",
        b"PRIVATE KEY-----",
        # The line ends may be escaped once or more, as in JSON.
        re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:\s|\\+[nr])+(?:[A-Za-z0-9+/=]|\s|\\+[nr]){200}"),
    ),
    _Shape("an API key", b"sk-", _token(b"sk-", rb"(?=[A-Za-z0-9_\-]*[A-Z])(?=[A-Za-z0-9_\-]*[0-9])[A-Za-z0-9_\-]{40,}")),
    _Shape("a GitHub token", b"ghp_", _token(b"ghp_", rb"[A-Za-z0-9]{36}")),
    _Shape("a GitHub token", b"github_pat_", _token(b"github_pat_", rb"[A-Za-z0-9_]{80}")),
    _Shape("a GitHub token", b"gho_", _token(b"gho_", rb"[A-Za-z0-9]{36}")),
)

_IN_DATABASES = (
    # In a database one value follows another without anything between them, so a token need not begin a word there. What begins a long
    # run of such letters is text in base64, which may hold any short prefix; the longer prefixes are nobody's chance.
    _Shape("a GitHub token", b"ghp_", re.compile(rb"(?<![A-Za-z0-9_\-]{200})ghp_[A-Za-z0-9]{36}")),
    _Shape("a GitHub token", b"gho_", re.compile(rb"(?<![A-Za-z0-9_\-]{200})gho_[A-Za-z0-9]{36}")),
    _Shape("a GitHub token", b"github_pat_", re.compile(rb"github_pat_[A-Za-z0-9_]{80}")),
    _Shape("an API key", b"sk-", re.compile(rb"sk-(?:proj|ant|svcacct|admin|or)-[A-Za-z0-9_\-]{40,}")),
)


class SecretScan:
    """Looks through one file, block after block."""

    def __init__(self, before: bytes = b"", *, database: bool = False) -> None:
        """Begin; ``before`` is what precedes the first block, when a file is not read from its start."""
        self._before = before[-OVERLAP:]
        self._shapes = (*_SHAPES, *_IN_DATABASES) if database else _SHAPES

    def find(self, block: bytes) -> str | None:
        """Return what kind of secret the file shows up to the end of ``block``, or ``None``."""
        window = self._before + block
        self._before = window[-OVERLAP:]
        for shape in self._shapes:
            if shape.word in window and shape.pattern.search(window):
                return shape.what
        return None
