"""How exports look to a person."""

from __future__ import annotations

from collections.abc import Iterable

from jamcore.cli.output import Output
from jamcore.cli.views import moment
from jamcore.cli.words import SHORT_ID, size_word
from jamcore.domain.exports import ExportManifest, Listed
from jamcore.domain.keeping import ExportRow, ExportView

SHOWN = 10
"""So many paths of a list are printed; the rest is counted."""


def show_exports(output: Output, found: Iterable[ExportRow]) -> None:
    """Print a list of exports."""
    output.table(
        ("EXPORT", "ROOM", "STATE", "FILES", "BYTES", "MADE", "VERIFIED"),
        (
            (
                str(each.export.id)[:SHORT_ID],
                each.room or "-",
                each.export.state,
                each.export.files,
                each.export.bytes_total,
                moment(each.export.created_at),
                moment(each.export.verified_at),
            )
            for each in found
        ),
    )


def show_export(output: Output, view: ExportView) -> None:
    """Print one export: where it is, what it holds, and what a person has to know of it."""
    row = view.export
    output.pairs(
        (
            ("export", row.id),
            ("room", view.room or "-"),
            ("state", row.state),
            ("lies in", view.path),
            ("files", f"{row.files}, {size_word(row.bytes_total)}"),
            ("conversation", _conversation(view.manifest) if view.manifest else "-"),
            ("made", moment(row.created_at)),
            ("verified", moment(row.verified_at) if row.verified_at else "not read whole yet"),
        )
    )
    if view.problem:
        output.note(f"Its manifest cannot be shown: {view.problem}", "red")
    if view.manifest:
        show_listed(output, "left out", view.manifest.left_out)
        show_listed(output, "lost set-id bits or attributes", view.manifest.stripped)
        show_listed(output, "looks like a credential, and is in the export", view.manifest.credentials)


def _conversation(manifest: ExportManifest) -> str:
    found = manifest.checkpoint
    if found is None:
        return "none: there was no checkpoint that could be resumed"
    turns = "conversation" if len(found.sessions) == 1 else "conversations"
    return f"generation {found.generation} of {moment(found.created_at)}, {len(found.sessions)} {turns}"


def show_listed(output: Output, what: str, found: Listed) -> None:
    """Print the first paths of a list, and how many there are; nothing where there are none."""
    if not found.total:
        return
    output.line(f"{found.total} {what}:", "yellow")
    for path in found.first[:SHOWN]:
        output.line(f"  {path}", "yellow")
    if found.total > min(SHOWN, len(found.first)):
        output.note("entries.jsonl in the export names all of them")
