"""Where the daemon of an app directory listens."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from jamcore.control.directory import RECORD, RECORD_BYTES
from jamcore.control.failures import AddressUnreadableError, DaemonOtherVersionError
from jamcore.control.schemas import DaemonRecord
from jamcore.control.versions import jam_version
from jamcore.system.files import Files


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
