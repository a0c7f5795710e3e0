"""``jam export restore``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.engines import engine_for
from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import (
    ApprovalsOption,
    CpusOption,
    DirectoryOption,
    DiskOption,
    EndpointCredentialOption,
    EndpointOption,
    EngineOption,
    ExportArgument,
    JsonOption,
    MemoryOption,
    MemoryPerProcessOption,
    ModelOption,
    PidsOption,
)
from jamcore.cli.requests import endpoint
from jamcore.cli.views import show_room
from jamcore.cli.words import quoted
from jamcore.domain.imports import AdoptRequest
from jamcore.domain.resources import resources


def command(
    export: ExportArgument,
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name for the room. Default: Jam finds one.")] = None,
    without_conversation: Annotated[
        bool, typer.Option("--without-conversation", help="Begin a new conversation on the files; the old one stays in the export.")
    ] = False,
    model: ModelOption = None,
    approvals: ApprovalsOption = None,
    engine: EngineOption = None,
    endpoint_url: EndpointOption = None,
    endpoint_credential: EndpointCredentialOption = None,
    cpus: CpusOption = None,
    memory: MemoryOption = None,
    memory_per_process: MemoryPerProcessOption = None,
    pids: PidsOption = None,
    disk: DiskOption = None,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Make a new room of a confirmed export from elsewhere, with its files and its exact conversation.

    The room is a new agent's, has a sandbox of its own, and begins parked: `jam room resume` goes on with the conversation. Where that
    cannot be taken up here exactly, the room is refused with the reason; `--without-conversation` takes the files alone.
    """

    async def work(session: Session) -> Exit:
        client = session.client()
        request = AdoptRequest(
            id=session.ids.uuid(),
            name=name,
            engine=await engine_for(session.output, client, engine),
            model=model,
            approvals=approvals,
            endpoint=endpoint(endpoint_url, endpoint_credential),
            resources=resources(cpus=cpus, memory=memory, memory_per_process=memory_per_process, pids=pids, disk=disk),
            without_conversation=without_conversation,
        )
        with session.output.ticker.during("making a room of the export"):
            view = await client.imports.restore(export, request)
        if session.output.json:
            session.output.document(view)
        else:
            show_room(session.output, view)
            session.output.note(f"Go on with it: jam room resume {quoted(view.room.name)}")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
