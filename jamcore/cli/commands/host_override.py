"""``jam host override``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.output import Output
from jamcore.cli.rooms import room_on
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.requests import OverrideRequest, OverrideView

_DIGEST = re.compile(r"[0-9a-f]{64}")


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A room, a sandbox's name, or a host's id.")],
    confirm: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Remove the sandbox: the digest of the evidence, as this command shows it without."),
    ] = None,
    discard_work: Annotated[
        bool,
        typer.Option("--discard-work", help="With --confirm: the work that the evidence names goes with the sandbox, and is lost."),
    ] = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Show the evidence about a sandbox that lost its proof of ownership, or remove it on your word.

    Without `--confirm` nothing is changed. With it, the sandbox is removed if the evidence is still the same; its files and the
    conversation stay, and `jam room resume` makes the sandbox anew. Where a private clone goes with the sandbox, the evidence says which
    work is in it; such work is lost with `--discard-work` alone. What was removed, and on which evidence, is kept in its rooms and in the
    daemon's log.
    """

    async def work(session: Session) -> Exit:
        client, output = session.client(), session.output
        if confirm is None:
            view = await client.inspect_override(name)
            if output.json:
                output.document(view)
            else:
                _show(output, name, view)
            return Exit.OK
        with output.ticker.during("removing the sandbox"):
            request = OverrideRequest(id=session.ids.uuid(), confirmed=_digest(confirm), discard_work=discard_work)
            done = await client.override(name, request)
        if output.json:
            output.document(done)
        else:
            output.line(f"{done.sandbox}: removed{'' if discard_work else '; its files stay'}")
            room = await room_on(client, done.host_id)
            output.note(f"Bring its room back, in a new sandbox over the same files: jam room resume {room}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


def _digest(text: str) -> str:
    """Accept a digest as a person copied it.

    Raises:
        InvalidInputError: It is none.
    """
    if not _DIGEST.fullmatch(digest := text.strip().lower()):
        raise InvalidInputError(field="--confirm", problem="not the evidence's digest: 64 hexadecimal digits")
    return digest


def _show(output: Output, name: str, view: OverrideView) -> None:
    seen = view.evidence
    output.pairs(
        (
            ("sandbox", seen.sandbox),
            ("host", view.host_id),
            ("engine", view.engine),
            ("rooms", ", ".join(view.rooms)),
            ("presence", seen.presence),
            ("the guest's proof", seen.nonce),
            ("the engine's proof", seen.engine_proof),
            ("marker", seen.marker_digest),
            *_clone(view),
            ("evidence", view.digest),
        )
    )
    if view.needed:
        lossy = seen.work is not None and bool(seen.work.blockers())
        what = "lose the work above" if lossy else "keep its files"
        option = " --discard-work" if lossy else ""
        output.note(f"Remove it all the same, and {what}: jam host override {name} --confirm {view.digest}{option}")
    else:
        output.note("Its proof holds: there is nothing to override, and its rooms can be resumed.")


def _clone(view: OverrideView) -> tuple[tuple[str, object], ...]:
    """Say what a private clone holds, and whether it goes."""
    work = view.evidence.work or view.stays
    if work is None:
        return ()
    goes = "goes with the sandbox" if view.evidence.clone_goes else "stays"
    return ("the clone", goes), ("work in it", "; ".join(work.blockers()) or "none")
