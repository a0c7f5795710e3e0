"""Runs one turn in a network namespace whose only name server is this script, and prints what the program tried to reach.

Started by test_loopback_only.py inside bubblewrap, never by pytest. ``argv``: the tools root, a scratch directory, and variables of the
program's environment to change, so that a control run can show that the name server would have heard something.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from jam_copilot import config, opening, plan
from jam_copilot.opening import open_copilot
from jamcore.api import RuntimeRequest, ThreadRequest, provider_identity
from jamcore.testing.local_guest import local_guest
from jamcore.testing.servers.responses import ResponsesServer, Script, say

LISTEN_S = 5.0


async def main(tools: Path, scratch: Path, changed: dict[str, str]) -> None:
    own_environment, own_arguments = plan.environment, config.arguments

    def environment(state_root: str, tools_root: str) -> tuple[tuple[str, str], ...]:
        return tuple((dict(own_environment(state_root, tools_root)) | changed).items())

    def arguments(request: RuntimeRequest) -> tuple[str, ...]:
        return tuple(part for part in own_arguments(request) if not changed or not part.startswith("--no-auto"))

    setattr(opening, "environment", environment)  # noqa: B010 - it is imported there
    setattr(opening, "arguments", arguments)  # noqa: B010
    asked: list[str] = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(answer_names, asked)
        async with (
            ResponsesServer(Script(rules=(say("hello"),))) as model,
            local_guest(scratch) as guest,
            open_copilot(guest.runtime_request(tools, model.base_url), guest) as runtime,
        ):
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model="mock-model"))
            async with runtime.turn(provider_identity(thread.identity), "hi") as events:
                last = [event async for event in events][-1]
            await anyio.sleep(LISTEN_S)  # what is asked in the background
        tasks.cancel_scope.cancel()
    print(json.dumps({"end": last.model_dump(mode="json"), "asked": sorted(set(asked))}))


async def answer_names(asked: list[str], *, task_status: TaskStatus[None]) -> None:
    """Be the name server: note each name and answer that it does not exist."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setblocking(False)
        server.bind(("127.0.0.1", 53))
        task_status.started()
        while True:
            await anyio.wait_readable(server)
            data, sender = server.recvfrom(4_096)
            asked.append(name_in(data))
            server.sendto(data[:2] + b"\x81\x83" + data[4:6] + b"\0" * 6 + data[12:], sender)


def name_in(query: bytes) -> str:
    labels, place = [], 12
    while query[place]:
        labels.append(query[place + 1 : place + 1 + query[place]].decode())
        place += 1 + query[place]
    return ".".join(labels)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
