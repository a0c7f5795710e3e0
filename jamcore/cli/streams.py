"""The standard streams when they fail: a full disk, a reader that has gone, or nothing there at all. Imports next to nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_FAULT = 4
"""The same number as ``Exit.FAULT``, which would cost an import here."""


class OutputLostError(Exception):
    """Output could not be written: the reader has gone, or the disk is full. Apart from other failures of the system."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause)
        self.cause = cause


@contextmanager
def writing() -> Iterator[None]:
    """Tell a failure to print from every other one.

    Raises:
        OutputLostError: It could not be written.
    """
    try:
        yield
    except OSError as error:
        raise OutputLostError(error) from error


def lost(error: OSError) -> int:
    """Return the status when output could not be written, and say so; a reader that has seen enough (`jam ls | head`) is no error.

    What is still buffered is given up: Python would complain once more when it closes the stream.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    status = 0
    if not isinstance(error, BrokenPipeError):
        status = EXIT_FAULT
        try:
            print(
                f"jam: the output cannot be written: {error.strerror or 'unknown reason'} (output.failed)",
                file=sys.stderr,
                flush=True,
            )
        except OSError:
            os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)
    return status


def open_closed() -> None:
    """Give a closed stream (`jam ls >&-`) the null device: no socket may come to lie there and be printed on."""
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
