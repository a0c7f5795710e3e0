"""How a person is shown what clears the disk: what goes, what stays, and what stands against it, in bytes."""

from __future__ import annotations

from jamcore.cli.output import Output
from jamcore.cli.words import SHORT_ID, exact_size, quoted, size_word
from jamcore.domain.capacity import CapacityReport, HostUse
from jamcore.domain.cleanup_plans import CleanupPlan, CleanupReason, CleanupResult
from jamcore.domain.export_deletions import ExportDeletionPlan

LISTED = 20
"""So many lines of a list are printed; the rest is counted."""


def show_cleanup(output: Output, plan: CleanupPlan, host: str) -> None:
    """Print what a clean-up would take away, item by item, what stays, and the command that does it or what stands against it."""
    seen = plan.evidence
    output.pairs(
        (
            ("host", seen.host_id),
            ("sandbox", f"{seen.sandbox} ({seen.engine}, {seen.presence})"),
            ("rooms", ", ".join(seen.rooms) or "-"),
        )
    )
    output.line("Goes:")
    output.table(("WHAT", "BYTES", "ENTRIES", "WHERE"), ((i.what, i.bytes, i.entries, i.path or seen.engine) for i in seen.items))
    output.line(f"{exact_size(plan.planned_bytes)} would be freed")
    output.line("Stays:")
    stays = [(f"export {each.id}", each.bytes_total) for each in seen.exports[:LISTED]]
    if more := len(seen.exports) - len(stays):
        stays.append((f"{more} more exports", sum(each.bytes_total for each in seen.exports[LISTED:])))
    output.table(("WHAT", "BYTES"), (*stays, (f"{plan.change_requests} change requests, and all rows", None)))
    if plan.standing:
        output.line("It cannot be cleaned up:", "red")
        for each in plan.standing:
            output.line(f"  {each.reason}  {each.subject}: {each.detail}", "red")
    _offer(output, plan, host)


def _offer(output: Output, plan: CleanupPlan, host: str) -> None:
    word = " --discard-work" if any(each.reason is CleanupReason.WORK for each in plan.evidence.blockers) else ""
    if plan.unfinished is not None:
        begun = plan.unfinished
        output.note(
            f"A clean-up was begun and is not over: it is {begun.stage}. A start of the daemon goes on with it, and so does:"
        )
        output.note(f"jam host cleanup {quoted(host)} --confirm {begun.confirmed}")
    elif plan.digest:
        output.note(f"Remove it for good: jam host cleanup {quoted(host)} --confirm {plan.digest}{word}")
    elif all(each.reason is CleanupReason.WORK for each in plan.standing):
        output.note(f"See the plan that loses this work: jam host cleanup {quoted(host)} --discard-work")
    else:
        output.note("Nothing was changed. Mend what is named, and look again.")


def show_cleaned(output: Output, done: CleanupResult) -> None:
    """Print what went, and where the rest is."""
    output.line(f"{done.sandbox}: removed, {exact_size(done.cleanup.removed_bytes or 0)} freed", "green")
    output.line(f"{len(done.exports)} exports stay, {exact_size(sum(each.bytes_total for each in done.exports))}")
    for room in done.rooms[:LISTED]:
        output.note(f"What is left of {room}: jam export ls {quoted(room)}")


def show_capacity(output: Output, report: CapacityReport) -> None:
    """Print what each host takes, the sums, and what a person might look at."""
    columns = ("SANDBOX", "STATE", "ROOMS", "DISK", "WORKSPACES", "PROVIDER", "CHECKPOINTS", "OTHER", "EXPORTS", "SUM")
    output.table(columns, map(_use, report.hosts))
    below = sum(host.below_root for host in report.hosts)
    least = "" if report.whole else "at least "
    output.line(
        f"{len(report.hosts)} hosts take {least}{size_word(below)}; {report.exports} exports {size_word(report.export_bytes)}"
    )
    output.line(f"{size_word(report.free_bytes)} are free")
    if not report.whole:
        output.note(
            "Where a number has a +, not everything was counted: one look is bounded. `jam host cleanup HOST` counts all of one."
        )
    if report.candidates:
        held = sum(each.bytes_total for each in report.candidates)
        output.note(
            f"{len(report.candidates)} exports are older than 30 days and not the newest of their rooms, {size_word(held)}:"
        )
        for each in report.candidates[:LISTED]:
            output.note(
                f"  jam export rm {each.id}  ({each.room or 'no room here'}, {each.age_days} days, {exact_size(each.bytes_total)})"
            )
    for host in report.hosts[:LISTED]:
        if host.checkpoints_that_may_go and host.rooms:
            room = quoted(host.rooms[0])
            output.note(f"{host.checkpoints_that_may_go} old checkpoints: jam checkpoint rm --room {room} --older-than 30")
    output.note("This is advice: Jam removes nothing by itself.")


def _use(host: HostUse) -> tuple[object, ...]:
    more = "" if host.whole else "+"
    figures = (host.guest_disk, host.workspaces, host.provider_state, host.checkpoints, host.other, host.exports, host.below_root)
    return (host.sandbox, host.state, ", ".join(host.rooms) or "-", *(f"{figure}{more}" for figure in figures))


def show_deletion(output: Output, plan: ExportDeletionPlan) -> None:
    """Print what the deletion of an export would take away, and the command that does it or what stands against it."""
    seen = plan.evidence
    output.pairs(
        (("export", seen.export_id), ("room", seen.room or "-"), ("lies in", plan.path), ("frees", exact_size(seen.bytes_freed)))
    )
    for each in seen.others[:LISTED]:
        output.line(f"stays: export {str(each.id)[:SHORT_ID]}, {exact_size(each.bytes_total)}")
    for blocker in seen.blockers:
        output.line(f"It stays ({blocker.reason}): {blocker.detail}", "red")
    word = ""
    if seen.last_of_workspace:
        word = " --lose-workspace"
        output.line("No sound export as new as this one has the files of the archived workspace: THEY ARE LOST WITH IT.", "red")
    if plan.digest:
        output.note(f"Delete it for good: jam export rm {seen.export_id} --confirm {plan.digest}{word}")
    else:
        output.note("Nothing was changed.")
