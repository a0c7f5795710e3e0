"""Lines that a person types, read without blocking what else goes on."""

from __future__ import annotations

import codecs
import os
from collections.abc import AsyncGenerator

import anyio

CHUNK_BYTES = 64 << 10


async def read_lines(descriptor: int) -> AsyncGenerator[str, None]:
    """Yield whole lines until the end of the input; a line that ends with a backslash goes on with the next.

    The descriptor stays the caller's, and as blocking as it was: on a terminal it is shared with the shell.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    rest, held = "", ""
    while data := await _read(descriptor):
        *whole, rest = (rest + decoder.decode(data)).split("\n")
        for line in whole:
            if line.endswith("\\"):
                held += line[:-1] + "\n"
            else:
                yield held + line
                held = ""
    if held or rest:
        yield held + rest


async def _read(descriptor: int) -> bytes:
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:
        await anyio.lowlevel.checkpoint()  # a file or /dev/null: never waits, so it cannot be waited for
    return os.read(descriptor, CHUNK_BYTES)
