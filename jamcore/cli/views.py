"""How rooms and change requests look to a person."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from jamcore.cli.output import Output, Row
from jamcore.cli.text import safe_line
from jamcore.cli.words import SHORT_ID, passed, quoted, room_word, shortened, size_word
from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.cells import Placement
from jamcore.domain.changes import ChangeDecision, ChangeRequest, Verdict
from jamcore.domain.requests import RoomView
from jamcore.domain.resets import MEANING, FreshStart
from jamcore.domain.resources import limits_in_words
from jamcore.domain.retention import CheckpointStanding
from jamcore.domain.safekeeping import Safety
from jamcore.domain.sandboxes import Resources
from jamcore.domain.sessions import HostState, Turn, TurnState, WorkspaceState
from jamcore.domain.shared_hosts import ONE_TRUST_DOMAIN


def moment(at: datetime | None) -> str:
    """Return a time of this machine's zone, to the second."""
    return "-" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def room_state(view: RoomView) -> str:
    """Return one word: what the room is doing."""
    return room_word(
        busy=view.busy, live=view.live, not_parked=view.not_parked, workspace=view.workspace.state, host=view.host.state
    )


def show_room(output: Output, view: RoomView) -> None:
    """Print one room."""
    output.pairs(
        (
            ("room", view.room.name),
            ("id", view.room.id),
            ("agent", view.host.provider),
            ("model", view.session.model or "the agent's own"),
            ("asks before it acts", view.session.approvals is ApprovalPolicy.ASK),
            ("engine", view.host.engine),
            ("isolation", view.isolation),
            ("combination", view.host.cell),
            ("limits", _limits(view.host.plan_json)),
            ("state", room_state(view)),
            ("workspace", view.workspace.path or view.workspace.guest_path),
            ("started from", view.workspace.commit),
            ("conversation", view.session.provider_identity or "none yet"),
            *kept_pairs(view.safety, datetime.now(UTC)),
            *fresh_start_pairs(view.fresh_starts),
            ("made", moment(view.room.created_at)),
        )
    )
    if view.host.cell.placement is Placement.SHARED:
        output.note(ONE_TRUST_DOMAIN, "yellow")
    if view.not_parked:
        output.note(f"{view.not_parked}; it is tried again each second", "red")
    name = quoted(view.room.name)
    if view.host.state is HostState.REMOVED:
        words = "Its sandbox was removed for good, with its checkpoints. Its exports stay"
        output.note(f"{words}: jam export ls {name}\nOne becomes a new room: jam export import DIRECTORY", "yellow")
    elif view.workspace.state is WorkspaceState.ARCHIVED:
        output.note(f"Its files are in an export: jam export ls {name}\nBring them back: jam workspace restore {name}", "yellow")
    show_trouble(output, view)


def kept_pairs(safety: Safety, now: datetime) -> tuple[tuple[str, object], ...]:
    """Return in which generation a conversation is, how old and large that is, when it was last read whole, and what is in none."""
    kept = safety.kept
    if kept is None:
        return (("kept in", "no generation yet"), ("turns in none", safety.turns_outside))
    verified = "damaged: " + kept.damage if kept.damage else moment(kept.verified_at) if kept.verified_at else "not read whole yet"
    size = f"{size_word(kept.bytes_total)}, {kept.files} {'file' if kept.files == 1 else 'files'}"
    return (
        ("kept in", f"generation {kept.generation}, {passed(kept.created_at, now)} old, {size}"),
        ("verified", verified),
        ("turns in none", safety.turns_outside),
    )


def fresh_start_pairs(starts: Iterable[FreshStart]) -> Iterator[tuple[str, object]]:
    """Yield when and why the conversation began afresh, and where what came before it is kept; newest first."""
    for each in starts:
        why = f"{MEANING[each.failure]} ({each.failure})" if each.failure else "it could not be brought back"
        yield (
            "began afresh",
            f"{moment(each.at)}, because {why}; the old one is kept as session {each.source_session_id} in {each.source_sandbox}",
        )


def show_trouble(output: Output, view: RoomView) -> None:
    """Print what keeps a conversation out of a generation, and what to type next."""
    trouble, unsaved, name = view.safety.trouble, view.safety.unsaved, quoted(view.room.name)
    if unsaved is not None:
        failed = f"The last checkpoint failed at {moment(unsaved.failed_at)}: {unsaved.problem}"
        output.note(f"{failed}\nThe room does not start before that is settled. Next: jam room stop {name}", "red")
    elif trouble is not None and trouble.deferred and view.safety.turns_outside:
        output.note(f"Not captured yet: {trouble.why}; it is asked for again when that ends", "yellow")
    elif trouble is not None and not trouble.deferred:
        since = f"No checkpoint since {moment(trouble.since)}: {trouble.why}"
        output.note(f"{since}\nIt is tried again at {moment(trouble.next_try)}", "red")


def _limits(plan: str) -> str:
    """Return the limits of a stored plan in words; the rest of the plan is not needed, and importing it takes time."""
    try:
        return limits_in_words(Resources.model_validate(json.loads(plan)["resources"])) or "none"
    except (ValueError, KeyError, TypeError):
        return "the plan cannot be read"


def show_turns(output: Output, turns: Sequence[Turn]) -> None:
    """Print turns, oldest first, and why some of them failed."""
    output.table(
        ("TURN", "STATE", "ACCEPTED", "MESSAGE"),
        ((str(turn.id)[:SHORT_ID], turn.state, moment(turn.accepted_at), shortened(turn.text)) for turn in turns),
    )
    for turn in turns:
        if turn.state is TurnState.FAILED and turn.detail:
            output.note(f"turn {str(turn.id)[:SHORT_ID]} failed: {safe_line(turn.detail)}", "red")


def show_changes(output: Output, changes: Iterable[ChangeRequest], decisions: Iterable[ChangeDecision]) -> None:
    """Print a list of change requests and what became of them."""
    verdicts = {decision.change_id: decision.verdict for decision in decisions}
    output.table(
        ("CHANGE", "ROOM", "MADE", "STATE", "FILES", "FLAGS", "OBJECTIVE"),
        (
            (
                str(change.id)[:SHORT_ID],
                str(change.room_id)[:SHORT_ID],
                moment(change.created_at),
                verdicts.get(change.id, "open"),
                len(change.paths),
                len({flag for path in change.paths for flag in path.flags}),
                shortened(change.objective),
            )
            for change in changes
        ),
    )


def show_change(output: Output, change: ChangeRequest, decision: ChangeDecision | None = None) -> None:
    """Print what a change request holds, what a reviewer must look at twice (SEC-2), and what became of it."""
    output.line(f"Change request {change.id}", "bold")
    if decision is not None and decision.verdict is Verdict.ACCEPTED:
        output.line(f"  accepted: commit {decision.commit} on branch {decision.branch} of {decision.repository}", "green")
    elif decision is not None:
        output.line(f"  rejected: {decision.reason}", "yellow")
    if change.objective:
        output.line(f"  objective: {shortened(change.objective)}")
    output.line(f"  base: {change.base}")
    if not change.complete:
        output.line("  incomplete: the patch was cut, or something could not be read", "red")
    for words in change.skipped:
        output.line(f"  not taken: {words}", "red")
    if not change.paths:
        output.line("  no file was changed")
    for path in change.paths:
        flags = f"   ! {', '.join(path.flags)}" if path.flags else ""
        output.line(f"  {path.change:<12} {path.path}{flags}", "yellow" if flags else "")


def show_standings(output: Output, found: Iterable[CheckpointStanding]) -> None:
    """Print generations, newest first, with what each holds, what it added to the disk, and what keeps it.

    Those of a sandbox that a fresh start left follow apart.
    """
    for position, (_, rows) in enumerate(groupby(found, key=lambda each: each.checkpoint.host_id)):
        if position:
            output.note("Of a sandbox that a fresh start left:")
        output.table(("GENERATION", "ID", "REASON", "FILES", "BYTES", "WRITTEN", "MADE", "KEPT"), map(_standing, rows))


def _standing(each: CheckpointStanding) -> Row:
    row = each.checkpoint
    removed = f"payload removed on {moment(each.removed_at)}" if each.removed_at is not None else ""
    return (
        row.generation,
        str(row.id)[:SHORT_ID],
        row.reason,
        row.files,
        row.bytes_total,
        row.bytes_written,
        moment(row.created_at),
        removed or str(each.kept_because or ""),
    )
