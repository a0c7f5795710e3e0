"""Reads the files that every room gets. It is done once, when the daemon makes the policy: a hook touches nothing."""

from __future__ import annotations

import os
from pathlib import Path

from jamcore.api import PreparedFile

BUNDLED = Path(__file__).with_name("rules")
VARIABLE = "EXAMPLE_POLICY_RULES"
"""In the daemon's environment: a directory with other rules than those that come along."""
MOST_FILES = 100


def directory() -> Path:
    """Return where the rules lie on this machine."""
    return Path(os.environ.get(VARIABLE) or BUNDLED)


def rules(source: Path, below: str) -> tuple[PreparedFile, ...]:
    """Return the files of a directory, to be written below a directory of the state root.

    Raises:
        OSError, ValueError: It cannot be read, or holds nothing, too much, or what is no text. The policy is broken then, and no
            room starts: rules that are mandatory are there, or nothing is.
    """
    paths = sorted(path for path in source.rglob("*") if path.is_file())
    if not 0 < len(paths) <= MOST_FILES:
        raise ValueError(f"{source} has {len(paths)} files; between 1 and {MOST_FILES} can be rules")
    return tuple(
        PreparedFile(path=f"{below}/{path.relative_to(source).as_posix()}", content=path.read_text(encoding="utf-8"))
        for path in paths
    )
