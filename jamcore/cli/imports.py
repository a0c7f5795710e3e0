"""How exports from elsewhere look to a person: everything in them is a claim, and is said to be one."""

from __future__ import annotations

from jamcore.cli.exports import show_listed
from jamcore.cli.output import Output
from jamcore.cli.views import moment
from jamcore.cli.words import quoted, size_word
from jamcore.domain.imports import ConversationClaim, ImportView
from jamcore.domain.kept_exports import ExportState


def show_import(output: Output, view: ImportView) -> None:
    """Print what there is to confirm of an export, or what to do with a confirmed one."""
    seen, row = view.evidence, view.export
    output.pairs(
        (
            ("export", row.id),
            ("state", row.state),
            ("lies in", view.path),
            (
                "says it is of",
                f"room {seen.origin.room_name or '-'}, agent {seen.origin.agent_name}, made {moment(row.created_at)}",
            ),
            ("agent's plugin", f"{seen.origin.provider}, {'installed' if seen.provider_installed else 'not installed'} here"),
            ("files", f"{seen.workspace.files}, {size_word(seen.workspace.bytes_total)}"),
            ("conversation", _conversation(seen.conversation, view.program_missing)),
        )
    )
    show_listed(output, "looks like a credential", seen.credentials)
    show_listed(output, "lost set-id bits or attributes when it was made, it says", seen.stripped)
    show_listed(output, "left out when it was made, it says", seen.left_out)
    if row.state is ExportState.QUARANTINED:
        output.note(
            "Every byte is what its own lists say. Who made it, nothing proves: an agent may have written all of it.", "yellow"
        )
        output.note(f"Confirm it: jam export confirm {row.id} --confirm {view.digest}")
    elif row.room_id is None:
        without = " --without-conversation" if seen.conversation.problem else ""
        output.note(f"Make a room of it: jam export restore {row.id}{without}")
    if view.program_missing:
        output.note(f"The agent's program is not installed: jam provider install {quoted(seen.origin.provider)}", "yellow")


def _conversation(claim: ConversationClaim, missing: str) -> str:
    if claim.checkpoint is None:
        return claim.problem or "none"
    of = f"generation {claim.checkpoint.generation} of {moment(claim.checkpoint.created_at)}"
    if claim.problem:
        return f"{of}; cannot go on here: {claim.problem}"
    return f"{of}; can go on here exactly" + (f", once there is {missing}" if missing else "")
