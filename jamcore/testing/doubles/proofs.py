"""What a guest might do to its proof of ownership."""

from __future__ import annotations

from pathlib import Path

FORGED = ("gone", "other", "longer", "link", "directory")
"""The ways :func:`forge` knows."""


def forge(path: Path, how: str) -> None:
    """Do to the guest's proof what a guest might."""
    data = path.read_bytes()
    path.unlink()
    if how == "other":
        path.write_bytes(data.replace(data[12:16], b"zzzz"))
    elif how == "longer":
        path.write_bytes(data + b"x" * 100_000)
    elif how == "link":
        path.with_name("copy").write_bytes(b"{}")
        path.symlink_to(path.with_name("copy"))
    elif how == "directory":
        path.mkdir()
