"""Text that came from a guest, a provider or a repository, made harmless for a terminal (SEC-3)."""

from __future__ import annotations

import re

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SEPARATORS = "\u2028\u2029"
_INVISIBLE = "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_SURROGATES = "\ud800-\udfff"
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}{_SEPARATORS}{_INVISIBLE}{_SURROGATES}]")
_LINE_ENDS = re.compile(r"\r\n")
_WHITE = re.compile(r"[\n\t]+")


def safe(text: str) -> str:
    """Return ``text`` with everything that could steer a terminal made visible.

    Escaped: C0 and C1 controls, DEL, bidirectional overrides, invisible tags, line separators, lone surrogates. Kept: newline, tab, and
    every letter of every script.
    """
    return _UNSAFE.sub(_visible, _LINE_ENDS.sub("\n", text))


def safe_line(text: str, limit: int = 0) -> str:
    """Return ``text`` safe and on one line, cut to ``limit`` characters when that is not 0."""
    line = safe(_WHITE.sub(" ", _LINE_ENDS.sub("\n", text)).strip())
    return line if not limit or len(line) <= limit else line[: limit - 1] + "…"


def _visible(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number <= 0xFF else f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
