"""Names of files as people see them."""

from __future__ import annotations


def show_path(path: bytes) -> str:
    """Return a path as text that shows every byte: printable UTF-8 as it is, anything else as a backslash escape."""
    text = path.decode("utf-8", errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
