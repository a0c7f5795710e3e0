"""Runs one turn in a network namespace whose only name server is this script, and prints which names the program asked for.

Started by test_loopback_only.py inside bubblewrap, never by pytest. ``argv``: the tools root, a scratch directory, and names of variables
of OpenCode's environment to leave out with prepared files to leave out, so that a control run shows that the name server would have heard
something.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from jam_acp.opening import open_acp
from jam_acp.places import Places
from jam_acp.profiles.opencode import OPENCODE
from jamcore.api import ThreadRequest, provider_identity
from jamcore.testing.local_guest import LocalGuest, local_guest
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.script import Script, say

LISTEN_S = 5.0


async def main(tools: Path, scratch: Path, without: list[str]) -> None:
    environment = tuple(pair for pair in OPENCODE.environment if pair[0] not in without)
    profile = OPENCODE.model_copy(update={"environment": environment})
    asked: list[str] = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(answer_names, asked)
        async with ChatServer(Script(rules=(say("hello"),))) as model, local_guest(scratch) as guest:
            prepare(guest, tools, model.base_url, without)
            async with open_acp(profile, guest.runtime_request(tools, model.base_url), guest) as runtime:
                thread = await runtime.open_thread(ThreadRequest(cwd=str(guest.work), model="mock-model"))
                async with runtime.turn(provider_identity(thread.identity), "hi") as events:
                    last = [event async for event in events][-1]
                await anyio.sleep(LISTEN_S)  # what is asked in the background
        tasks.cancel_scope.cancel()
    print(json.dumps({"end": last.model_dump(mode="json"), "asked": sorted(set(asked))}))


def prepare(guest: LocalGuest, tools: Path, url: str, without: list[str]) -> None:
    """Put directories and files in place, as the core does."""
    places = Places(str(tools), str(guest.state), str(guest.home), url)
    for root, names in ((guest.state, OPENCODE.state_subdirectories), (guest.home, OPENCODE.guest_directories)):
        for name in names:
            (root / name).mkdir(parents=True, exist_ok=True)
    for file in OPENCODE.prepared:
        if not any(part in without for part in Path(file.path).parts):
            (guest.state / file.path).parent.mkdir(parents=True, exist_ok=True)
            (guest.state / file.path).write_text(places.fill(file.content))


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
