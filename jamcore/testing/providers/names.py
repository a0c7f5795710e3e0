"""Runs one turn in a network namespace whose only name server is this program, and prints which names the provider's program asked for.

:mod:`jamcore.testing.providers.loopback` starts it. ``argv``: the file that defines ``UNDER_TEST``, a scratch directory, and ``loud`` for
the control, in which the name server must hear something.
"""

from __future__ import annotations

import json
import runpy
import socket
import sys
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from jamcore.domain.ids import provider_identity
from jamcore.domain.providers import ThreadRequest
from jamcore.testing.local_guest import local_guest
from jamcore.testing.providers.opening import hooks_of, opened
from jamcore.testing.providers.subject import ProviderUnderTest
from jamcore.testing.servers.script import say

LISTEN_S = 5.0
"""For what is asked in the background; measured within 3 s."""
LOUD = "loud"
VARIABLE = "UNDER_TEST"


async def main(provider: ProviderUnderTest, scratch: Path, *, loud: bool) -> None:
    """Run the turn; print its last event and the names as one line of JSON."""
    hooks = await hooks_of(provider.name, (provider.loud or provider.plugin)() if loud else provider.plugin())
    asked: list[str] = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(answer_names, asked)
        async with (
            provider.model_server(say("hello")) as model,
            local_guest(scratch) as guest,
            opened(hooks, guest, model.base_url, provider.tools) as runtime,
        ):
            thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model=provider.model))
            async with runtime.turn(provider_identity(thread.identity), "hi") as events:
                last = [event async for event in events][-1]
            await anyio.sleep(LISTEN_S)
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
    """Return the name that a query is about."""
    labels, place = [], 12
    while query[place]:
        labels.append(query[place + 1 : place + 1 + query[place]].decode())
        place += 1 + query[place]
    return ".".join(labels)


if __name__ == "__main__":
    anyio.run(lambda: main(runpy.run_path(sys.argv[1])[VARIABLE], Path(sys.argv[2]), loud=sys.argv[3:] == [LOUD]))
