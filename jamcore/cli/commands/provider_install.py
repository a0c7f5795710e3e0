"""``jam provider install``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.signals import Interruptible


def command(
    provider: Annotated[str, typer.Argument(metavar="AGENT", help="Which agent; `jam provider ls` lists them.")],
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Get an agent's program in the version that Jam is proven with, verify it, and keep it in the app directory."""

    async def work(session: Session) -> Exit:
        client = session.client()

        async def leave() -> bool:
            return False

        with session.output.ticker.during(f"installing {provider}"):
            done = await Interruptible(lambda: client.install(provider), leave).run()
        if done is None:
            session.output.note("Left; the installation goes on in the daemon.", "bold")
            return Exit.INTERRUPTED
        if session.output.json:
            session.output.document(done)
        else:
            session.output.line(
                f"{done.provider} {done.version}: {'was installed already' if done.already else 'installed'}", "green"
            )
            session.output.note(done.path)
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
