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
from jamcore.domain.retention import CheckpointStanding, RemovalPlan, RemovalQuestion, RemovalRequest

_DIGEST = re.compile(r"[0-9a-f]{64}")


def command(
    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHECKPOINT]...", help="Ids, or 8 or more characters of their beginning or end; all of one room."),
    ] = None,
    room: Annotated[
        str | None, typer.Option(metavar="ROOM", help="All of this room that may go, but for those that are kept.")
    ] = None,
    keep: Annotated[int, typer.Option(metavar="N", min=1, help="With --room: how many of the newest stay.")] = 1,
    older_than: Annotated[
        int | None, typer.Option(metavar="DAYS", min=0, help="With --room: only those that were made before so many days.")
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
        refs = tuple(checkpoints or ())
        if (room is None) == (not refs):
            raise InvalidInputError(field="CHECKPOINT", problem="name checkpoints, or a room with --room")
        if room is not None:
            made_before = None if older_than is None else datetime.now(UTC) - timedelta(days=older_than)
            standings = (await client.removals.standings(room))[keep:]
            refs = tuple(str(each.checkpoint.id) for each in standings if _may_go(each, made_before))
            if not refs:
                output.note("Nothing may go: jam checkpoint ls says what keeps each.")
                return Exit.OK
        if confirm is None:
            with output.ticker.during("reading what would go"):
                plan = await client.removals.plan(RemovalQuestion(checkpoints=refs))
            if output.json:
                output.document(plan)
            else:
                _show(output, plan, _typed(checkpoints, room, keep, older_than))
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


def _may_go(each: CheckpointStanding, made_before: datetime | None) -> bool:
    return each.kept_because is None and (made_before is None or each.checkpoint.created_at < made_before)


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
    output.table(
        ("GENERATION", "ID", "FREES", "STAYS", "KEPT"),
        (
            (
                item.generation,
                str(item.checkpoint_id)[:SHORT_ID],
                item.bytes_freed,
                item.bytes_stay,
                f"{item.blocker}: {item.detail}" if item.blocker else "",
            )
            for item in seen.items
        ),
    )
    if seen.blocked:
        output.note("Nothing can be removed while one of them has to stay: leave those out.", "yellow")
        return
    output.line(f"{seen.bytes_freed} bytes would be freed; {seen.bytes_stay} stay, because other checkpoints need them")
    output.note(f"Remove them: jam checkpoint rm {typed} --confirm {plan.digest}")
