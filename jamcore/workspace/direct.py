"""Looks at the directory in which a person wants an agent to work in place, before any plan exists (CAP-7)."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jamcore.domain.errors import RefusalError


@dataclass(eq=False)
class DirectoryRefusedError(RefusalError):
    """An agent cannot work in place in this directory."""

    code: ClassVar[str] = "workspace.directory_refused"
    hint: ClassVar[str] = "Name a directory of a project that you may write, or give the agent a private clone with `--repo`."

    path: str
    problem: str


def inspect_directory(path: Path, *, app: Path, home: Path) -> Path:
    """Return the resolved directory.

    Args:
        path: What the person named.
        app: Jam's app directory: its records and credentials are never shown to a guest.
        home: The person's home: all of it at once holds keys and settings that no agent needs.

    Raises:
        DirectoryRefusedError: It is not there, cannot be written, or holds more than a project.
    """
    try:
        found = path.resolve(strict=True)
        str(found).encode()
    except UnicodeEncodeError as error:
        raise _refused(path, "the path is not valid UTF-8") from error
    except (OSError, RuntimeError) as error:
        raise _refused(path, getattr(error, "strerror", None) or "it cannot be reached") from error
    if not found.is_dir():
        raise _refused(path, "not a directory")
    root = app.resolve()
    if found.is_relative_to(root) or root.is_relative_to(found):
        raise _refused(path, "it holds Jam's own directory, or lies in it")
    if home.resolve().is_relative_to(found):
        raise _refused(path, "it is, or holds, your whole home directory")
    if not os.access(found, os.R_OK | os.W_OK | os.X_OK):
        raise _refused(path, "you may not read and write it")
    return found


def person_home() -> Path:
    """Return the home directory of whoever runs this process, as the user database has it; ``/`` for a number without an entry."""
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return Path("/")


def _refused(path: Path, problem: str) -> DirectoryRefusedError:
    return DirectoryRefusedError(path=os.fsencode(path).decode(errors="backslashreplace"), problem=problem)
