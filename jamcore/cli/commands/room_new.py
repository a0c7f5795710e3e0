"""``jam room new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jamcore.cli.engines import engine_for
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import (
    AllowDirtyOption,
    ApprovalsOption,
    CpusOption,
    DirectoryOption,
    DiskOption,
    EndpointCredentialOption,
    EndpointOption,
    EngineOption,
    JsonOption,
    MemoryOption,
    MemoryPerProcessOption,
    ModelOption,
    PidsOption,
)
from jamcore.cli.requests import endpoint, room_request
from jamcore.cli.rooms import making
from jamcore.cli.signals import Interruptible, second_leaves
from jamcore.cli.views import show_room
from jamcore.cli.words import quoted
from jamcore.domain.cells import Configuration, Placement
from jamcore.domain.resources import resources


def command(
    provider: Annotated[str, typer.Argument(metavar="AGENT", help="Which agent; `jam provider ls` lists them.")],
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name for the room. Default: Jam finds one.")] = None,
    repo: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A Git checkout to work on. The agent gets a private clone; yours is not touched."),
    ] = None,
    direct: Annotated[Path | None, typer.Option(metavar="PATH", help="Work on this directory itself, in place.")] = None,
    placement: Annotated[Placement, typer.Option(help="A sandbox of its own, or one that the agent's rooms share.")] = (
        Placement.DEDICATED
    ),
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose room it is: rooms of one agent can share a sandbox. Default: the provider's own agent."
        ),
    ] = None,
    configuration: Annotated[Configuration, typer.Option(help="Who configures the sandbox.")] = Configuration.JAM_MANAGED,
    environment_file: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="A file that configures the sandbox, for that configuration; several keep their order."),
    ] = None,
    model: ModelOption = None,
    approvals: ApprovalsOption = None,
    engine: EngineOption = None,
    endpoint_url: EndpointOption = None,
    endpoint_credential: EndpointCredentialOption = None,
    allow_dirty: AllowDirtyOption = False,
    cpus: CpusOption = None,
    memory: MemoryOption = None,
    memory_per_process: MemoryPerProcessOption = None,
    pids: PidsOption = None,
    disk: DiskOption = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Open a room: a lasting conversation with an agent, in its own sandbox with its own workspace.

    Without --repo the workspace begins empty.
    """

    async def work(session: Session) -> Exit:
        client = session.client()
        request = room_request(
            session.ids.uuid(),
            provider,
            name=name,
            repo=repo,
            direct=direct,
            placement=placement,
            agent=agent,
            configuration=configuration,
            environment_files=environment_file or (),
            engine=await engine_for(session.output, client, engine),
            model=model,
            approvals=approvals,
            allow_dirty=allow_dirty,
            choice=endpoint(endpoint_url, endpoint_credential),
            limits=resources(cpus=cpus, memory=memory, memory_per_process=memory_per_process, pids=pids, disk=disk),
        )

        async def still_starting() -> None:
            session.output.note("The sandbox is still starting. Ctrl-C again leaves; it goes on.", "bold")

        with session.output.ticker.during(f"opening a room with {provider}"):
            await client.health()  # a start has no deadline, so a daemon that is stuck is found out before
            made = making(session.output, client, request.id, lambda: client.create_room(request), provider=provider)
            view = await Interruptible(made, second_leaves(still_starting)).run()
        if view is None:
            session.output.note(f"Left; the room is still being made: jam room show {request.id}", "bold")
            return Exit.INTERRUPTED
        if session.output.json:
            session.output.document(view)
        else:
            show_room(session.output, view)
            shown = quoted(view.room.name)
            session.output.note(f'Talk: jam say {shown} "…"   or live: jam attach {shown}')
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
