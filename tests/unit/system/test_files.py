"""What the system says of a file, or of something that is none, in its typed form."""

from __future__ import annotations

import errno

import pytest

from jamcore.domain.errors import JamError
from jamcore.system.files import MachineStuckError, StorageFailedError, StorageFullError, storage_error


@pytest.mark.guarantee("CTRL-3")
@pytest.mark.parametrize(
    ("error", "typed"),
    [
        (OSError(errno.ENOSPC, "no space", "/a"), StorageFullError(detail="no space: /a")),
        (OSError(errno.EIO, "input/output error"), StorageFailedError(detail="input/output error")),
        (OSError("in words"), StorageFailedError(detail="in words")),
        (OSError(), StorageFailedError(detail="OSError")),
        (TimeoutError(), MachineStuckError(detail="TimeoutError")),
        (BrokenPipeError(errno.EPIPE, "broken pipe"), MachineStuckError(detail="broken pipe")),
    ],
    ids=repr,
)
def test_what_the_system_says_has_a_type_and_words(error: OSError, typed: JamError) -> None:
    """A process that does not end, and a connection that breaks, say nothing of a disk; nothing arrives without a word."""
    found = storage_error(error)
    assert (type(found), found.context()) == (type(typed), typed.context())
