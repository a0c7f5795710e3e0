"""``jam checkpoint rm``."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.output import Output
from jamcore.cli.words import SHORT_ID
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.retention import (
    REMOVED_TOGETHER,
    CheckpointStanding,
    RemovalEvidence,
    RemovalPlan,
    RemovalQuestion,
    RemovalRequest,
    RemovalResult,
    Retention,
)

_DIGEST = re.compile(r"[0-9a-f]{64}")
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
    confirm: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Remove them: the digest of the plan, as this command shows it without.")
    ] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show what the removal of checkpoints would free, or remove them on your word.

    Without `--confirm` nothing is changed. With it, the bytes that only these checkpoints need leave the disk, if the plan is still the
    same. What others need stays, and so do the rows: `jam checkpoint ls` says when each was removed. The newest is never removed, nor one
    that something refers to, that is damaged, or that a live session came back from.
    """

    async def work(session: Session) -> Exit:
        client, output = session.client(), session.output
        refs = _named(checkpoints, room, limited=keep is not None or older_than is not None)
        if room is not None:
            standings = await client.removals.standings(room)
            # One sandbox at a time: a fresh start leaves another one's behind, which can be named by their ids.
            standings = tuple(each for each in standings if each.checkpoint.host_id == standings[0].checkpoint.host_id)[keep or 1 :]
            may_go = tuple(str(each.checkpoint.id) for each in standings if _may_go(each, older_than))
            if not may_go:
                output.note(f"Nothing may go. What keeps each: jam checkpoint ls {shlex.quote(room)}")
                if output.json:
                    host = (await client.room(room)).host.id
                    none = RemovalEvidence(host_id=host, items=(), bytes_freed=0, bytes_stay=0, bytes_copied=0)
                    done = RemovalResult(id=session.ids.uuid(), host_id=host, checkpoints=(), bytes_freed=0)
                    output.document(done if confirm else RemovalPlan(evidence=none, digest=""))
                return Exit.OK
            refs = may_go[-REMOVED_TOGETHER:]
            if rest := len(may_go) - len(refs):
                output.note(f"These are the {len(refs)} oldest; {rest} more may go after them: repeat the command.", "yellow")
        if confirm is None:
            with output.ticker.during("reading what would go"):
                plan = await client.removals.plan(RemovalQuestion(checkpoints=refs))
            if output.json:
                output.document(plan)
            else:
                _show(output, plan, _typed(checkpoints, room, keep or 1, older_than))
            return Exit.OK
        with output.ticker.during("removing the checkpoints"):
            request = RemovalRequest(id=session.ids.uuid(), checkpoints=refs, confirmed=_digest(confirm))
            done = await client.removals.remove(request)
        if output.json:
            output.document(done)
        else:
            output.line(f"{len(done.checkpoints)} removed, {done.bytes_freed} bytes freed")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


def _named(checkpoints: list[str] | None, room: str | None, *, limited: bool) -> tuple[str, ...]:
    """Return the checkpoints that were named; none where a room was.

    Raises:
        InvalidInputError: Both were named or neither, what limits a room's goes with none, or more are named than go at once.
    """
    if (room is None) == (not checkpoints):
        raise InvalidInputError(field="CHECKPOINT", problem="name checkpoints, or a room with --room")
    if limited and room is None:
        raise InvalidInputError(field="--room", problem="--keep and --older-than choose among a room's checkpoints: name it")
    if len(checkpoints or ()) > REMOVED_TOGETHER:
        raise InvalidInputError(field="CHECKPOINT", problem=f"at most {REMOVED_TOGETHER} are removed at once")
    return tuple(checkpoints or ())


def _may_go(each: CheckpointStanding, days: int | None) -> bool:
    return each.kept_because is None and (days is None or each.checkpoint.created_at < datetime.now(UTC) - timedelta(days=days))


def _typed(checkpoints: list[str] | None, room: str | None, keep: int, older_than: int | None) -> str:
    """Return the arguments as they were typed."""
    if room is None:
        return shlex.join(checkpoints or ())
    return shlex.join(["--room", room, "--keep", str(keep), *(() if older_than is None else ("--older-than", str(older_than)))])


def _digest(text: str) -> str:
    """Accept a digest as a person copied it.

    Raises:
        InvalidInputError: It is none.
    """
    if not _DIGEST.fullmatch(digest := text.strip().lower()):
        raise InvalidInputError(field="--confirm", problem="not the plan's digest: 64 hexadecimal digits")
    return digest


def _show(output: Output, plan: RemovalPlan, typed: str) -> None:
    seen = plan.evidence
    output.table(("GENERATION", "ID", "FREES", "STAYS", "KEPT"), map(_row, seen.items))
    if seen.blocked:
        output.note("Nothing can be removed while one of them has to stay: leave those out.", "yellow")
        return
    output.line(f"{seen.bytes_freed} bytes would be freed; {seen.bytes_stay} stay, because other checkpoints need them")
    output.note(f"Remove them: jam checkpoint rm {typed} --confirm {plan.digest}")


def _row(item: Retention) -> tuple[object, ...]:
    kept = f"{item.blocker}: {item.detail}" if item.blocker else ""
    return (item.generation, str(item.checkpoint_id)[:SHORT_ID], item.bytes_freed, item.bytes_stay, kept)
