"""What can be said about an app directory while its daemon cannot start: looked at from outside, changing nothing."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from jamcore.control.settings import load_settings
from jamcore.domain import layout
from jamcore.domain.errors import JamError
from jamcore.domain.requests import DoctorReport, FindingView
from jamcore.system.git import GIT_PATH

SMALL_BYTES = 64 << 20
"""With less than this the database's own log may already find no room."""
_SQLITE = b"SQLite format 3\x00"


def look(directory: Path, environ: Mapping[str, str], error: JamError) -> DoctorReport:
    """Return the report that the daemon cannot give, which is never a healthy one.

    Args:
        directory: The app directory.
        environ: What settings come from.
        error: Why the daemon did not start.
    """
    reason = error.context().get("reason", str(error))
    findings = (
        FindingView(subject="daemon", ok=False, detail=f"it does not start: {reason}", hint=error.hint),
        *_place(directory),
        *_settings(directory, environ),
        *_database(directory / layout.DATABASE),
        *_programs(),
    )
    return DoctorReport(healthy=False, findings=findings)


def _place(directory: Path) -> Iterator[FindingView]:
    try:
        if not directory.is_dir():
            problem = "it is not a directory" if os.path.lexists(directory) else "it does not exist"
            yield FindingView(
                subject="app directory", ok=False, detail=f"{directory}: {problem}", hint="Name another with JAM_HOME."
            )
            return
        usable = os.access(directory, os.R_OK | os.W_OK | os.X_OK)
        free = shutil.disk_usage(directory).free
    except OSError as error:
        yield FindingView(
            subject="app directory", ok=False, detail=f"{directory}: {error.strerror}", hint="Check its owner and mode."
        )
        return
    hint = "" if usable else "Make it yours with mode 0700, or name another with JAM_HOME."
    yield FindingView(subject="app directory", ok=usable, detail=str(directory), hint=hint)
    enough = free >= SMALL_BYTES
    hint = "" if enough else "Free some space, or set JAM_HOME to a directory on a larger disk."
    yield FindingView(subject="disk of the app directory", ok=enough, detail=f"{free / (1 << 20):.0f} MiB free", hint=hint)


def _settings(directory: Path, environ: Mapping[str, str]) -> Iterator[FindingView]:
    try:
        load_settings(directory, environ)
    except JamError as error:
        yield FindingView(subject="settings", ok=False, detail=str(error), hint=error.hint)
    else:
        yield FindingView(subject="settings", ok=True, detail="they can be read", hint="")


def _database(path: Path) -> Iterator[FindingView]:
    """Say whether the file is a whole database, without writing to it, and which copies lie beside it."""
    try:
        with path.open("rb") as stream:
            head = stream.read(len(_SQLITE))
    except FileNotFoundError:
        yield FindingView(subject="database", ok=True, detail="there is none yet", hint="")
        return
    except OSError as error:
        yield FindingView(subject="database", ok=False, detail=f"{path.name}: {error.strerror}", hint="Check its owner and mode.")
        return
    problem = "" if head in (_SQLITE, b"") else "it is not a SQLite database"
    copies = sorted(copy.name for copy in path.parent.glob(f"{path.name}.before-*"))
    beside = f"; copies from before an upgrade: {', '.join(copies)}" if copies else ""
    detail = f"{path.name}: {problem or _checked(path)}{beside}"
    ok = not problem and ": whole, " in detail
    hint = "" if ok else "The file is kept as it is. Move it away to begin anew, or put a copy in its place; rooms are in it."
    yield FindingView(subject="database", ok=ok, detail=detail, hint=hint)


def _checked(path: Path) -> str:
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        return "not looked into: its write-ahead log holds what is not in it yet"
    try:
        # Immutable: otherwise even a reader makes files beside it.
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            version = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return f"{type(error).__name__}: {error}"
    return f"whole, schema {version[0] if version else 'unknown'}" if found == "ok" else str(found)


def _programs() -> Iterator[FindingView]:
    git = shutil.which("git", path=GIT_PATH)
    hint = "" if git else "Install git, for example with `apt-get install git`."
    yield FindingView(subject="git", ok=git is not None, detail=git or f"not found in {GIT_PATH}", hint=hint)
    yield FindingView(subject="python", ok=True, detail=f"{platform.python_version()} at {sys.executable}", hint="")
