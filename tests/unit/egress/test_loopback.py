"""The way in from the host's loopback: the guest's own user alone, and only with the word of its address."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import anyio
import pytest

from jamcore.egress.loopback import LoopbackDoor, user_of
from jamcore.testing.relays import post, rig

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("SEC-4")]


def port_of(door: LoopbackDoor) -> int:
    return int(door.url.removesuffix(door.prefix).rpartition(":")[2])


async def read_all(connection: socket.socket) -> bytes:
    """Read to the end; a reset is an end."""
    connection.setblocking(False)
    found = b""
    with anyio.fail_after(20):
        while True:
            await anyio.wait_readable(connection)
            try:
                data = connection.recv(1 << 16)
            except ConnectionError:
                return found
            if not data:
                return found
            found += data


async def test_a_connection_of_the_user_is_handed_over() -> None:
    """Connected, and nothing of it was read."""
    taken: list[socket.socket] = []
    came = anyio.Event()

    def take(connection: socket.socket) -> None:
        taken.append(connection)
        came.set()

    async with LoopbackDoor.open() as door:
        door.hand_to(take)
        with socket.create_connection(("127.0.0.1", port_of(door))) as ours:
            with anyio.fail_after(20):
                await came.wait()
            with taken[0]:
                ours.sendall(b"hello")
                await anyio.wait_readable(taken[0])
                assert taken[0].recv(16) == b"hello"


async def test_another_users_connection_is_closed() -> None:
    """The kernel says whose it is; nobody else's reaches the relay, which adds a credential."""
    taken: list[socket.socket] = []
    async with LoopbackDoor.open(user=os.geteuid() + 1) as door:
        door.hand_to(taken.append)
        with socket.create_connection(("127.0.0.1", port_of(door))) as ours:
            assert await read_all(ours) == b""
    assert taken == []


async def test_nobody_takes_and_it_ends() -> None:
    """Before the policy holds a connection is closed, never kept waiting."""
    async with LoopbackDoor.open() as door:
        with socket.create_connection(("127.0.0.1", port_of(door))) as ours:
            assert await read_all(ours) == b""


async def test_the_port_is_gone_with_the_door() -> None:
    """And every door has its own port and word."""
    async with LoopbackDoor.open() as one, LoopbackDoor.open() as two:
        assert one.url != two.url
        assert one.prefix != two.prefix
        port = port_of(one)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_the_kernels_table_is_asked_for_exactly_this_connection(tmp_path: Path) -> None:
    """Both ends must agree; a table that is not there says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        with theirs:
            assert user_of(theirs) == os.geteuid()
            assert user_of(theirs, tmp_path / "none") is None
            empty = tmp_path / "empty"
            empty.write_text("  sl  local_address rem_address\n")
            assert user_of(theirs, empty) is None
        assert ours.fileno() >= 0


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/word/v1/responses", 200),
        ("/v1/responses", 404),
        ("/worD/v1/responses", 404),
        ("/word/v1/messages?beta=true&v=2", 200),
        ("/word/v1/messages?beta=true", 404),
        ("/v1/messages?beta=true&v=2", 404),
        ("/v1/messages?beta=true&v=2&/word/v1/messages?beta=true&v=2", 404),
    ],
)
async def test_the_relay_wants_the_word_and_passes_it_on_to_nobody(target: str, status: int) -> None:
    """Neither upstream nor a log learns it; also before a listed query, which stays exact behind it."""
    async with rig(prefix="/word") as r:
        answered, _, _ = await (await r.guest()).ask(post(target=target))
        assert answered == status
        assert all(path in ("/v1/responses", "/v1/messages?beta=true&v=2") for _, path, _, _ in r.upstream.requests)
    assert all("word" not in decision.path.lower() for decision in r.decisions)
