"""Running a command: its client, its output, and the one place where errors become exit statuses."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import anyio
from pydantic import ValidationError

from jamcore.cli.exits import Exit, exit_of
from jamcore.cli.output import Output
from jamcore.cli.streams import OutputLostError, lost
from jamcore.control.client import JamClient
from jamcore.control.directory import app_directory, environment
from jamcore.control.reach import Reach
from jamcore.domain.errors import InvalidInputError, JamError
from jamcore.system.ids import IdSource, SystemIds

LEFT = "Left. What the daemon was asked for goes on there: `jam ls` and `jam change ls` show what became of it."
"""Said where a command has no better words for Ctrl-C: it may come before or after the daemon has heard of it."""


class Session:
    """What a command works with: its output, new ids, and clients of the daemon."""

    def __init__(self, directory: Path | None, output: Output) -> None:
        self.environ = environment()
        self.directory = app_directory(directory, self.environ)
        self.output = output
        self.ids: IdSource = SystemIds()
        self.asked = False
        """Whether the daemon may have been asked for something."""

    def client(self, *, start: bool = True, any_version: bool = False) -> JamClient:
        """Return a client; with ``start`` the daemon is started when it does not run."""
        return JamClient(self.reach(start=start, any_version=any_version))

    def reach(self, *, start: bool = True, any_version: bool = False) -> Reach:
        """Return the way to the daemon."""
        self.asked = True
        return Reach(
            self.directory,
            environ=self.environ,
            start=start,
            any_version=any_version,
            on_start=lambda: self.output.note("starting the daemon …"),
            on_recovery=lambda doing: self.output.note(f"starting: recovering {doing} …"),
            replace=self._replace,
        )

    async def _replace(self, reach: Reach) -> None:
        from jamcore.control.handover import hand_over  # late: two releases rarely meet

        await hand_over(
            reach, lambda old, new: self.output.note(f"the daemon of release {old} is idle; release {new} takes over from it")
        )


def invoke(work: Callable[[Session], Awaitable[Exit]], *, json: bool, directory: Path | None, room: str | None = None) -> NoReturn:
    """Run a command's work and end the process with its status. Nothing but a fault of Jam itself leaves as a traceback.

    ``room`` is the one that the command is about, as it was typed: what to do about an error is said with its name.
    """
    output = Output(json=json, out=sys.stdout, err=sys.stderr, room=room or "")
    try:
        status = _status(work, directory, output)
        output.flush()
    except OutputLostError as error:
        status = lost(error.cause)
    sys.exit(int(status))


def _status(work: Callable[[Session], Awaitable[Exit]], directory: Path | None, output: Output) -> int:
    session = Session(directory, output)
    try:
        return anyio.run(_work, work, session)
    except KeyboardInterrupt:
        if session.asked:
            output.note(LEFT, "bold")
        return Exit.INTERRUPTED
    except JamError as error:
        output.problem(error)
        return exit_of(error)


async def _work(work: Callable[[Session], Awaitable[Exit]], session: Session) -> Exit:
    try:
        return await work(session)
    except ValidationError as error:
        raise _wrong_input(error) from error
    except BaseExceptionGroup as group:
        # A task group wraps what failed in it; a person wants the failure.
        raise _first(group) from group


def _wrong_input(error: ValidationError) -> Exception:
    """Return what a person reads when their words do not fit into the request that a command makes of them."""
    if not error.title.endswith("Request"):
        return error  # not made of a person's words: a fault of Jam's
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return InvalidInputError(field=".".join(map(str, first["loc"])), problem=first["msg"].removeprefix("Value error, "))


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
