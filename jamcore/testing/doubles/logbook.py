"""A provider that keeps each conversation in a log of its own below its state root, so that rooms of one sandbox can be told apart (WS-5).

Its program speaks as that of :mod:`jamcore.testing.doubles.notebook` does, and answers everything with the whole conversation too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

import anyio

from jamcore.api import (
    DEDICATED_MANAGED_CELLS,
    SHARED_CELL,
    ActivationPlan,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    GuestLauncher,
    PlacementAnswer,
    PlacementRequest,
    PlanContribution,
    ProviderDescription,
    ProviderRuntime,
    RuntimeRequest,
    hookimpl,
)
from jamcore.testing.doubles.notebook import START, NotebookRuntime

LOGS = "logs"
PROGRAM = r"""
import json, os, sys, uuid

def path(thread):
    return os.path.join(sys.argv[1], "logs", thread + ".jsonl")

def say(**fields):
    print(json.dumps(fields), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    thread = asked.get("thread") or str(uuid.uuid4())
    if asked["do"] == "open":
        open(path(thread), "x").close()
    if not os.path.exists(path(thread)):
        say(error="there is no such thread")
        continue
    with open(path(thread), "a+") as log:
        if asked["do"] == "turn":
            turn = str(uuid.uuid4())
            print(json.dumps([turn, asked["text"]]), file=log, flush=True)
            say(turn=turn)
        log.seek(0)
        notes = [json.loads(line) for line in log]
    if asked["do"] == "turn":
        say(message=" | ".join(text for _, text in notes))
    else:
        say(thread=thread, turns=[turn for turn, _ in notes])
"""


class LogbookProvider:
    """The plugin: an entry point may name it."""

    api_version: ClassVar[Any] = (1, 0)

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Describe: no program to fetch, no endpoint, no credential; all rooms of a sandbox in one process."""
        return ProviderDescription(
            name="logbook",
            title="Logbook",
            cells=DEDICATED_MANAGED_CELLS | {SHARED_CELL},
            toolchain=None,
            credential=None,
            default_origin=None,
            continuity=True,
            threads_share_process=True,
        )

    @hookimpl
    def jam_contribute_plan(self) -> PlanContribution:
        """Contribute the directory of the logs."""
        return PlanContribution(agent_image="logbook", state_subdirectories=(LOGS,))

    @hookimpl
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Take every session."""
        return PlacementAnswer(accepted=True, own_process=False)

    @hookimpl
    def jam_declare_capture(self) -> CaptureList:
        """Declare the logs, and whose each is."""
        return CaptureList(
            entries=(CaptureEntry(pattern=f"{LOGS}/*.jsonl", kind=CaptureKind.APPEND_ONLY),),
            conversation_patterns=(f"{LOGS}/{{identity}}.jsonl",),
        )

    @hookimpl
    def jam_declare_activation(self) -> ActivationPlan:
        """Declare nothing: what is captured is all there is."""
        return ActivationPlan()

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Accept the same version."""
        return captured == current

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Return the program's context."""
        return _running(request, launcher)


@asynccontextmanager
async def _running(request: RuntimeRequest, launcher: GuestLauncher) -> AsyncIterator[ProviderRuntime]:
    argv = ("/bin/sh", "-c", START, "logbook", "-I", "-c", PROGRAM, request.state_root)
    process = await launcher.start(argv, cwd=request.state_root)
    try:
        yield NotebookRuntime(process)
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()
