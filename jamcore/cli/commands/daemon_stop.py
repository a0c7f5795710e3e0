"""``jam daemon stop``."""

from __future__ import annotations

import os

import anyio

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.control.failures import DaemonNotRunningError, NoAnswerError
from jamcore.domain.limits import FORCED_EXIT_S

WAIT_S = FORCED_EXIT_S + 5.0
"""The daemon ends itself by force after its own bound; a little longer than that."""


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Stop the daemon and wait until it has ended. Running turns are interrupted and checkpointed; all rooms come back later."""

    async def work(session: Session) -> Exit:
        client = session.client(start=False, any_version=True)
        try:
            pid = (await client.health()).pid
            ended = _Ended(pid)
        except (DaemonNotRunningError, ProcessLookupError):
            return _report(session, stopped=False)
        try:
            with session.output.ticker.during("stopping the daemon"):
                await client.shutdown()
                await ended.wait()
        finally:
            ended.close()
        return _report(session, stopped=True)

    invoke(work, json=json, directory=app_directory)


def _report(session: Session, *, stopped: bool) -> Exit:
    if session.output.json:
        session.output.document({"stopped": stopped, "running": False})
    else:
        session.output.line("The daemon has ended." if stopped else "The daemon was not running.")
    return Exit.OK


class _Ended:
    """The end of a process that is no child of this one; a descriptor, so that a reused number is never mistaken for it."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.pidfd_open(pid)

    async def wait(self) -> None:
        """Wait for it.

        Raises:
            NoAnswerError: It did not end within :data:`WAIT_S`.
        """
        with anyio.move_on_after(WAIT_S):
            await anyio.wait_readable(self._descriptor)
            return
        raise NoAnswerError(request="shutdown", waited_s=WAIT_S)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)
