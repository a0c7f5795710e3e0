"""Where an app directory is, and where its daemon listens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from jamcore.control.failures import AddressUnreadableError, DaemonOtherVersionError
from jamcore.control.schemas import DaemonRecord
from jamcore.control.versions import jam_version
from jamcore.system.files import Files

RECORD = "daemon.json"
HOME_VARIABLE = "JAM_HOME"
RECORD_BYTES = 64 << 10
"""The record is a few hundred bytes; what is longer is not the record."""


def environment() -> Mapping[str, str]:
    """Return a copy of the process's environment: read here once, passed on from here."""
    return dict(os.environ)  # noqa: TID251 - the one reading that the rule asks for


def app_directory(explicit: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the absolute app directory: the explicit one, then ``JAM_HOME``, then the platform's user data directory."""
    named = environ.get(HOME_VARIABLE, "")
    if explicit is None and not named:
        import platformdirs  # late: most calls name the directory

        return platformdirs.user_data_path("jam", appauthor=False)
    chosen = explicit if explicit is not None else Path(named)
    return Path(os.path.abspath(chosen.expanduser()))  # noqa: PTH100 - resolve() would follow the user's symbolic links


def read_record(directory: Path) -> DaemonRecord | None:
    """Return the address that the last daemon wrote, or ``None``; that one is written does not mean that it runs.

    Raises:
        AddressUnreadableError: The directory or the file cannot be read.
        DaemonOtherVersionError: The file has a form that this release does not know.
    """
    path = directory / RECORD
    try:
        with path.open("rb") as stream:
            text = stream.read(RECORD_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise AddressUnreadableError(path=str(path), reason=error.strerror or type(error).__name__) from error
    try:
        return DaemonRecord.model_validate_json(text)
    except ValidationError as error:
        raise DaemonOtherVersionError(daemon="its address record is of another form", client=jam_version()) from error


def write_record(directory: Path, record: DaemonRecord, files: Files) -> None:
    """Make the daemon findable. Called once it listens."""
    files.write_atomic(directory / RECORD, record.canonical_json())


def remove_record(directory: Path, record: DaemonRecord, files: Files) -> None:
    """Remove the address if it is still this daemon's."""
    if read_record(directory) == record:
        files.unlink(directory / RECORD)
