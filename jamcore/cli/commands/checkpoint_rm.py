"""``jam checkpoint rm``."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from jamcore.cli.confirming import digest_of
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.removal import host_of_removed, is_gone, of_room, oldest, show_plan
from jamcore.cli.words import exact_size, quoted
from jamcore.domain.errors import InvalidInputError, JamError
from jamcore.domain.retention import (
    REMOVED_TOGETHER,
    RemovalEvidence,
    RemovalPlan,
    RemovalQuestion,
    RemovalRefusedError,
    RemovalRequest,
    RemovalResult,
)

_MOST_DAYS = 365_000  # a moment before the first year of the calendar cannot be told


def command(
    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHECKPOINT]...", help="Ids, or 8 or more characters of their beginning or end; all of one room."),
    ] = None,
    room: Annotated[
        str | None, typer.Option(metavar="ROOM", help="All of this room that may go, but for those that are kept.")
    ] = None,
    keep: Annotated[int | None, typer.Option(metavar="N", min=1, help="With --room: how many of the newest stay.")] = None,
    older_than: Annotated[
        int | None,
        typer.Option(metavar="DAYS", min=0, max=_MOST_DAYS, help="With --room: only those that were made before so many days."),
    ] = None,
    up_to: Annotated[
        int | None, typer.Option(metavar="N", help="With --room: none after this generation, however far the room is meanwhile.")
    ] = None,
    confirm: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Remove them: the digest of the plan, as this command shows it without.")
    ] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show what the removal of checkpoints would free, or remove them on your word.

    Without `--confirm` nothing is changed: FREES is what leaves the disk with each, STAYS what it shares with those that stay. A plan that
    something stands against ends with the status of a refusal. With `--confirm`, the bytes that only these checkpoints need leave the
    disk, if the plan is still the same. What others need stays, and so do the rows: `jam checkpoint ls` says when each was removed. The
    newest is never removed, nor one that something refers to, that is damaged, or that a live session came back from.
    """

    async def work(session: Session) -> Exit:
        refs = _named(checkpoints, room, limited=any(each is not None for each in (keep, older_than, up_to)))
        typed = shlex.join(refs)
        if room is not None:
            chosen, rest = oldest(await session.client().removals.standings(room), keep or 1, older_than, up_to)
            if not chosen:
                return await _nothing_may_go(session, room, confirmed=confirm is not None)
            refs, typed = tuple(str(each.id) for each in chosen), of_room(room, keep, older_than, up_to=chosen[0].generation)
            if rest:
                session.output.note(f"These are the {len(refs)} oldest; {rest} more may go after them.", "yellow")
        if confirm is None:
            return await _plan(session, refs, typed)
        return await _remove(session, RemovalRequest(id=session.ids.uuid(), checkpoints=refs, confirmed=digest_of(confirm)))

    invoke(work, json=json, directory=app_directory, room=room)


async def _plan(session: Session, refs: tuple[str, ...], typed: str) -> Exit:
    """Show what would go. A plan that something stands against is a refusal; that all of it went already is none."""
    output = session.output
    with output.ticker.during("reading what would go"):
        plan = await session.client().removals.plan(RemovalQuestion(checkpoints=refs))
    if output.json:
        output.document(plan)
    else:
        show_plan(output, plan, typed)
    return Exit.REFUSED if plan.evidence.blocked and not is_gone(plan.evidence) else Exit.OK


async def _remove(session: Session, request: RemovalRequest) -> Exit:
    output, removals = session.output, session.client().removals
    try:
        with output.ticker.during("removing the checkpoints"):
            done = await removals.remove(request)
    except JamError as error:
        if error.code != RemovalRefusedError.code or (host := await host_of_removed(session.client(), request.checkpoints)) is None:
            raise
        done = RemovalResult(id=request.id, host_id=host, checkpoints=(), bytes_freed=0)
        output.note("Their payload was removed already; nothing was changed.")
    if output.json:
        output.document(done)
    else:
        output.line(f"{len(done.checkpoints)} removed, {exact_size(done.bytes_freed)} freed")
    return Exit.OK


async def _nothing_may_go(session: Session, room: str, *, confirmed: bool) -> Exit:
    output = session.output
    output.note(f"Nothing may go. What keeps each: jam checkpoint ls {quoted(room)}")
    if output.json:
        host = (await session.client().room(room)).host.id
        none = RemovalEvidence(host_id=host, items=(), bytes_freed=0, bytes_stay=0, bytes_copied=0)
        done = RemovalResult(id=session.ids.uuid(), host_id=host, checkpoints=(), bytes_freed=0)
        output.document(done if confirmed else RemovalPlan(evidence=none, digest=""))
    return Exit.OK


def _named(checkpoints: list[str] | None, room: str | None, *, limited: bool) -> tuple[str, ...]:
    """Return the checkpoints that were named; none where a room was.

    Raises:
        InvalidInputError: Both were named or neither, what limits a room's goes with none, or more are named than go at once.
    """
    if (room is None) == (not checkpoints):
        raise InvalidInputError(field="CHECKPOINT", problem="name checkpoints, or a room with --room")
    if limited and room is None:
        raise InvalidInputError(field="--room", problem="--keep, --older-than and --up-to choose among a room's: name it")
    if len(checkpoints or ()) > REMOVED_TOGETHER:
        raise InvalidInputError(field="CHECKPOINT", problem=f"at most {REMOVED_TOGETHER} are removed at once")
    return tuple(checkpoints or ())
