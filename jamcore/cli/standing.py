"""How a room's conversation stands, in one sentence. Pure: evidence in, words out."""

from __future__ import annotations

from jamcore.cli.words import quoted
from jamcore.domain.continuity import Checkpoint, ObservationOutcome, ResumeSource
from jamcore.domain.requests import SessionInspection

AHEAD = "workspace.ahead"
"""Code of the notice that a room's files are ahead of its conversation."""
RESUME_FAILED = "the last resume failed"


def standing(found: SessionInspection, *, ahead: str = "") -> tuple[str, str]:
    """Return a sentence on how the conversation stands, and its style: exact, refused with what to type next, or new.

    Args:
        found: The evidence.
        ahead: What the room was told of files that are ahead of its conversation, if no turn has ended well since.
    """
    name = quoted(found.room.room.name)
    files = f"\n{ahead[:1].upper()}{ahead[1:]}." if ahead else ""
    if (unsaved := found.room.safety.unsaved) is not None:
        return f"Its last checkpoint failed ({unsaved.problem}), so it does not start. Next: jam room stop {name}", "red"
    if failure := _refusal(found):
        return f"It cannot be brought back ({failure}); nothing was changed. Next: jam continuity inspect {name}", "red"
    kept = newest(found)
    if found.room.session.provider_identity is None:
        return f"No conversation yet; the first message begins it.{files}", "dim"
    if kept is None:
        return f"The conversation has begun; no checkpoint of it yet.{files}", "yellow"
    if not found.room.live:
        return f"Parked: a message, or `jam room resume {name}`, resumes it exactly (generation {kept.generation}).{files}", "green"
    last = found.observations[-1] if found.observations else None
    if last is None:
        return f"Live since it began; kept in generation {kept.generation}.{files}", "green"
    used = next((each.generation for each in found.checkpoints if each.id == last.checkpoint_id), kept.generation)
    source = "its live state extends it" if last.source is ResumeSource.LIVE else "restored from it"
    return f"Resumed exactly (generation {used}: {source}).{files}", "green"


def _refusal(found: SessionInspection) -> str:
    """Return why a parked room did not come back the last time; empty when nothing speaks against it."""
    if found.room.live:
        return ""
    if found.decision is not None and found.decision.failure is not None:
        return found.decision.failure
    kept, last = newest(found), found.observations[-1] if found.observations else None
    if last is None or kept is None or last.checkpoint_id != kept.id or last.outcome is ObservationOutcome.SUCCEEDED:
        return ""
    return RESUME_FAILED


def newest(found: SessionInspection) -> Checkpoint | None:
    """Return the newest generation, if there is one."""
    return max(found.checkpoints, key=lambda each: each.generation, default=None)
