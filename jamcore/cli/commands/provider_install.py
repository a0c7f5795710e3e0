"""``jam provider install``."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import anyio
import typer

from jamcore.cli.download import Show
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.signals import Interruptible
from jamcore.control.client import JamClient
from jamcore.domain.errors import JamError
from jamcore.domain.requests import InstalledToolchain

LOOK_S = 0.25
"""How often the daemon is asked how far it is; pip tells it four times a second."""


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

        async def install() -> InstalledToolchain:
            return await install_shown(client, provider, show)

        with session.output.download(provider) as show:
            done = await Interruptible(install, leave).run()
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


async def install_shown(client: JamClient, provider: str, show: Show) -> InstalledToolchain:
    """Install an agent's program and show how far it is meanwhile.

    What became of it is said when the last look was answered: a look that is cancelled in the moment of its answer leaves a traceback of
    the event loop on the terminal.
    """
    show(await client.install_progress(provider))  # first alone: two at once would both start the daemon
    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_watch, client, provider, show, ended)
        try:
            return await client.install(provider)
        except JamError as error:
            failure = error
        finally:
            ended.set()
    raise failure


async def _watch(client: JamClient, provider: str, show: Show, ended: anyio.Event) -> None:
    """Show how far it is for as long as the daemon tells; what became of it, the installation itself says."""
    with suppress(JamError):
        while not ended.is_set():
            show(await client.install_progress(provider))
            with anyio.move_on_after(LOOK_S):
                await ended.wait()
