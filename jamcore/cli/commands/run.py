"""``jam run``."""

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
    DetachOption,
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
from jamcore.cli.runs import ShownRun
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.requests import RunRequest
from jamcore.domain.resources import resources


def command(
    provider: Annotated[str, typer.Argument(metavar="AGENT", help="Which agent; `jam provider ls` lists them.")],
    objective: Annotated[str, typer.Argument(metavar="OBJECTIVE", help="What to do, in your words.")],
    *,
    repo: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A Git checkout to work on. The agent gets a private clone; yours is not touched."),
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
    detach: DetachOption = False,
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Give an agent an objective in a fresh sandbox, and get its changes as a change request to review.

    Shows the work live. Ctrl-C interrupts the turn; a second Ctrl-C detaches and lets it go on.

    With --json each event is a line `{"event": …}`, and the last line is `{"run": …}`.
    """

    async def work(session: Session) -> Exit:
        if not objective.strip():
            raise InvalidInputError(field="OBJECTIVE", problem="say what to do, in your words")
        identifier = session.ids.uuid()
        choice = endpoint(endpoint_url, endpoint_credential)
        client = session.client()
        engine_name = await engine_for(session.output, client, engine)
        room = room_request(
            identifier,
            provider,
            repo=repo,
            engine=engine_name,
            model=model,
            approvals=approvals,
            allow_dirty=allow_dirty,
            choice=choice,
            limits=resources(cpus=cpus, memory=memory, memory_per_process=memory_per_process, pids=pids, disk=disk),
        )
        request = RunRequest(
            id=identifier, turn_id=session.ids.uuid(), change_id=session.ids.uuid(), room=room, objective=objective
        )
        return await ShownRun(session, client, request).go(detach=detach)

    invoke(work, json=json, directory=app_directory)
