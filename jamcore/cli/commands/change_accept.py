"""``jam change accept``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import ChangeArgument, DirectoryOption, JsonOption, PatchDigestOption
from jamcore.domain.requests import AcceptRequest


def command(
    change: ChangeArgument,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="The branch to put it on. Default: a new one, jam/<end of the id>."),
    ] = None,
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="PATH", help="The repository. Default: the one that the room was started from.")
    ] = None,
    author: Annotated[
        str | None, typer.Option("--author", metavar="'NAME <MAIL>'", help="Default: whom the repository's own settings name.")
    ] = None,
    allow_moved: Annotated[
        bool, typer.Option("--allow-moved", help="Accept a branch that has gone on since, if the patch fits it as it is.")
    ] = False,
    patch_sha256: PatchDigestOption = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Accept a change request: one commit with exactly the reviewed bytes, on a branch of your repository.

    Your work tree and what is staged are not touched. A branch that is checked out is refused: accept onto a new one and merge it.
    """

    async def work(session: Session) -> Exit:
        client = session.client()
        with session.output.ticker.during("putting it on a branch"):
            view = await client.change(change)
            request = AcceptRequest(
                id=session.ids.uuid(),
                patch_sha256=patch_sha256 or view.change.patch_sha256,
                branch=branch,
                repository=str(repo.absolute()) if repo else None,
                author=author,
                allow_moved=allow_moved,
            )
            decision = await client.accept_change(str(view.change.id), request)
        if session.output.json:
            session.output.document(decision)
            return Exit.OK
        session.output.line(f"Accepted: commit {decision.commit} on branch {decision.branch} of {decision.repository}", "green")
        if decision.moved:
            session.output.note(
                f"The branch had moved: the change is on top of {decision.parent}, not of what was reviewed.", "yellow"
            )
        session.output.note(f"Take it over: git merge {decision.branch}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
