"""``jam workspace archive``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.archives import left_out_path, override_of, show_archive
from jamcore.cli.confirming import digest_of
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption, RoomArgument
from jamcore.cli.words import exact_size, quoted
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, ArchiveResult
from jamcore.domain.operations import ExportRetention


def command(
    room: RoomArgument,
    retention: Annotated[
        ExportRetention, typer.Option(help="What becomes of older exports of the room: all stay, or the new one alone.")
    ] = ExportRetention.KEEP_ALL,
    override: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON:PATH", help="Go on although this was found, as the plan names it. May be repeated."),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A path below the workspace that is lost, with all below it. May be repeated."),
    ] = None,
    confirm: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Archive it: the digest of the plan, as this command shows it without.")
    ] = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show what archiving a room's files would do, or do it on your word.

    Without `--confirm` nothing is changed: what would go, what stays, and all that was found in the files that lies nowhere else. A plan
    that something stands against ends with the status of a refusal. With `--confirm`, if all is still the same: the files and the
    conversation go into an export, which is read whole; then the files' directory is removed. The room stays, and
    `jam workspace restore` brings its files back. An override skips what it names, and never the export.
    """

    async def work(session: Session) -> Exit:
        question = ArchiveQuestion(
            retention=retention,
            overrides=tuple(override_of(each) for each in override or ()),
            leave_out=tuple(left_out_path(each) for each in leave_out or ()),
        )
        if confirm is None:
            return await _plan(session, room, question)
        words = {name: getattr(question, name) for name in ArchiveQuestion.model_fields}
        return await _archive(session, room, ArchiveRequest(id=session.ids.uuid(), confirmed=digest_of(confirm), **words))

    invoke(work, json=json, directory=app_directory, room=room)


async def _plan(session: Session, room: str, question: ArchiveQuestion) -> Exit:
    output = session.output
    with output.ticker.during("looking at the files"):
        plan = await session.client().exports.plan_archive(room, question)
    if output.json:
        output.document(plan)
    else:
        show_archive(output, plan, question, room)
    return Exit.OK if plan.digest else Exit.REFUSED


async def _archive(session: Session, room: str, request: ArchiveRequest) -> Exit:
    output = session.output
    with output.ticker.during("exporting the files, and removing them"):
        done = await session.client().exports.archive(room, request)
    if output.json:
        output.document(done)
    else:
        _show(session, room, done)
    return Exit.OK


def _show(session: Session, room: str, done: ArchiveResult) -> None:
    output = session.output
    held = f"{done.files} files, {exact_size(done.bytes_removed)}"
    output.line(f"Archived: {held}, are in export {done.export.id}, which was read whole", "green")
    if done.exports_removed:
        freed = sum(each.bytes_total for each in done.exports_removed)
        output.line(f"{len(done.exports_removed)} older exports were removed, {exact_size(freed)}")
    output.note(f"Bring the files back: jam workspace restore {quoted(room)}")
