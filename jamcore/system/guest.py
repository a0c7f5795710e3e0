"""A process in a sandbox as everybody sees it: byte streams, a status, and an owner who ends it.

Engines make it and plugins speak over it; the two never import each other, so the Protocol stands below both.
"""

from __future__ import annotations

from typing import Protocol

from anyio.abc import ByteReceiveStream, ByteSendStream

from jamcore.domain.sandboxes import ExitStatus, TerminalSize


class GuestProcess(Protocol):
    """A running process in a sandbox. Its owner must close it; closing ends the whole tree and is idempotent.

    ``stdin`` half-closes with ``aclose`` (the guest reads EOF). ``stdout``/``stderr`` raise ``anyio.EndOfStream`` at the end; with a
    terminal ``stderr`` is empty at once. Bytes are exact and in order; a slow reader stops the guest, nothing is dropped.
    """

    @property
    def stdin(self) -> ByteSendStream:
        """What the process reads."""

    @property
    def stdout(self) -> ByteReceiveStream:
        """What the process writes to its standard output."""

    @property
    def stderr(self) -> ByteReceiveStream:
        """What the process writes to its standard error."""

    async def wait(self) -> ExitStatus:
        """Wait for the end of the process (not of its output). May be awaited by several callers.

        Raises:
            SandboxGoneError: The sandbox ended and took the process with it, so no status is known.
        """

    async def signal(self, number: int) -> None:
        """Send a signal to the process's group; does nothing when it has ended."""

    async def kill_tree(self) -> None:
        """End the process and everything it started, also what left its session, and wait until they are gone (bounded)."""

    async def resize(self, size: TerminalSize) -> None:
        """Tell a PTY its new size; does nothing without a terminal."""

    async def aclose(self) -> None:
        """Close the streams and end the tree."""
