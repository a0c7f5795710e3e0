"""How a workspace looks to a person: how it stands, what stands against its removal, and what can be typed next."""

from __future__ import annotations

from collections.abc import Iterator

from jamcore.cli.exports import show_exports
from jamcore.cli.output import Output
from jamcore.cli.words import quoted, size_word
from jamcore.domain.removal import RemovalInspection
from jamcore.domain.workspace_care import WorkspaceView


def show_workspace(output: Output, view: WorkspaceView) -> None:
    """Print everything."""
    output.pairs(_pairs(view))
    for words in view.place.words() if view.place else (f"its place cannot be looked at: {view.problem}",):
        output.line(f"Wrong: {words}", "red")
    if view.manifest_found:
        output.line(f"In the place of {view.manifest_path} lies:")
        output.line(f"  {view.manifest_found}")
    for name in view.kept_aside:
        output.line(f"Kept from an earlier recovery: {name}")
    if view.inspection is not None:
        for blocker in view.inspection.blockers:
            output.line(f"Stands against its removal: {blocker.reason}: {blocker.path}: {blocker.detail}", "yellow")
    if view.inspection_problem:
        output.line(f"What its removal would lose cannot be said: {view.inspection_problem}", "red")
    if view.exports:
        output.note("Exports of it:")
        show_exports(output, view.exports)
    for command in view.next:
        output.note(f"Next: {command.replace('ROOM', quoted(view.room))}", "bold")


def _pairs(view: WorkspaceView) -> Iterator[tuple[str, object]]:
    yield ("room", view.room)
    yield ("workspace", view.workspace.state)
    yield ("files", view.path)
    yield ("sandbox", f"{view.sandbox}, {view.host_state}{', the room is live' if view.live else ''}")
    if view.unfinished is not None:
        yield ("not ended", f"{view.unfinished.title} ({view.unfinished.id})")
    if view.inspection is not None:
        lost = view.inspection.losses
        yield ("holds", f"{lost.files} files, {size_word(lost.bytes)}, without git's own")
        work = (
            (lost.uncommitted, "uncommitted"),
            (lost.untracked, "untracked"),
            (lost.unpushed, "unpushed"),
            (lost.stashes, "stashed"),
        )
        yield ("work that lies nowhere else", ", ".join(f"{count} {word}" for count, word in work if count) or "none")
    if view.confirms_archive:
        yield ("an archive is confirmed by", view.confirms_archive)
    elif view.inspection is not None:
        yield ("an archive", f"cannot be confirmed: {_hindrance(view, view.inspection)}")


def _hindrance(view: WorkspaceView, found: RemovalInspection) -> str:
    if view.unfinished is not None:
        return "the operation above has not ended"
    if view.live:
        return "the room is live"
    return "what is named below stands against it" if found.blockers else "the workspace cannot be archived as it is"
