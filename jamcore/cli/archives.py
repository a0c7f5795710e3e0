"""How the plan of an archive looks to a person, and how its overrides are typed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

from jamcore.cli.output import Output, Row
from jamcore.cli.words import SHORT_ID, exact_size
from jamcore.domain.checkpoint_exports import spelled
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.keeping import ArchivePlan, ArchiveQuestion
from jamcore.domain.operations import ExportRetention
from jamcore.domain.removal import RemovalBlocker, RemovalOverride, RemovalReason

LEFT_OUT_SHOWN = 20
"""So many sockets and FIFOs are named; the rest is counted."""
TYPED = 10
"""So many overrides at most are put into a command that a person is told to type."""


def left_out_path(text: str) -> str:
    """Return a path as exports spell it.

    Raises:
        InvalidInputError: It is not one below the workspace.
    """
    path = text.removeprefix("./").rstrip("/")
    if not path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidInputError(field="--leave-out", problem="not a path below the workspace")
    return spelled(os.fsencode(path))


def override_of(text: str) -> RemovalOverride:
    """Read ``REASON:PATH``.

    Raises:
        InvalidInputError: It has another form, or no such reason.
    """
    reason, colon, path = text.partition(":")
    if not colon or not path or reason not in set(RemovalReason):
        reasons = ", ".join(RemovalReason)
        raise InvalidInputError(field="--override", problem=f"not REASON:PATH as the plan shows them; reasons are {reasons}")
    return RemovalOverride(reason=RemovalReason(reason), path=path)


def show_archive(output: Output, plan: ArchivePlan, question: ArchiveQuestion, room: str) -> None:
    """Print what would go, what stays, what stands against it, and what to type next."""
    seen = plan.evidence
    output.line("Goes, once a verified export of it exists:")
    git = ", git's own among them" if seen.inspection.repositories else ""
    output.line(f"  the room's files: {plan.holds.files} files, {exact_size(plan.holds.bytes_total)}{git}")
    for path in question.leave_out:
        output.line(f"  for good, and in no export: {path}", "yellow")
    for path in plan.left_out.first[:LEFT_OUT_SHOWN]:
        output.line(f"  for good, and in no export: {path}", "yellow")
    if (more := plan.left_out.total - min(LEFT_OUT_SHOWN, len(plan.left_out.first))) > 0:
        output.line(f"  for good, and in no export: {more} more sockets and FIFOs", "yellow")
    for export in seen.exports_that_go:
        output.line(f"  the older export {str(export.id)[:SHORT_ID]}: {exact_size(export.bytes_total)}")
    output.line("Stays:")
    output.line("  a new export of the files and the conversation, the sandbox, and the room")
    for export in plan.exports_that_stay:
        output.line(f"  the export {str(export.id)[:SHORT_ID]}: {exact_size(export.bytes_total)}")
    if seen.inspection.blockers:
        output.line("Found:")
        output.table(("REASON", "PATH", "DETAIL", "STANDS"), (_row(each, plan.standing) for each in seen.inspection.blockers))
    for name in plan.not_exportable:
        output.line(f"  cannot be exported: {name}", "red")
    _say_next(output, plan, question, room)


def _row(blocker: RemovalBlocker, standing: Iterable[RemovalBlocker]) -> Row:
    stands = (
        "overridden"
        if blocker not in standing
        else "against it"
        if blocker.may_be_forced
        else "against it, for as long as it is so"
    )
    return (blocker.reason, blocker.path, blocker.detail, stands)


def _say_next(output: Output, plan: ArchivePlan, question: ArchiveQuestion, room: str) -> None:
    if plan.live:
        output.note(f"The room is live. Stop it, then look again: jam stop {shlex.quote(room)}", "yellow")
    elif plan.not_exportable:
        output.note("Remove or repair what cannot be exported, or say with --leave-out PATH that it may be lost.", "yellow")
    elif any(not each.may_be_forced for each in plan.standing):
        output.note("Nothing was changed. What stands against it for as long as it is so has to end first.", "yellow")
    elif plan.standing:
        words = (RemovalOverride(reason=each.reason, path=each.path) for each in plan.standing[:TYPED])
        more = question.model_copy(update={"overrides": (*question.overrides, *words)})
        output.note(f"Commit and push what is to stay elsewhere too. If the export is enough: {typed(more, room)}", "yellow")
    else:
        output.note(f"Archive it: {typed(question, room)} --confirm {plan.digest}")


def typed(question: ArchiveQuestion, room: str) -> str:
    """Return the command that asks this question."""
    words = ["jam", "workspace", "archive", room]
    if question.retention is not ExportRetention.KEEP_ALL:
        words += ["--retention", question.retention]
    for override in question.overrides:
        words += ["--override", f"{override.reason}:{override.path}"]
    for path in question.leave_out:
        words += ["--leave-out", path]
    return shlex.join(words)
