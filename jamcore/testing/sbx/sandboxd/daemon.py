"""The daemon: one process for one set of state, which outlives every caller. Each request is one line of JSON over its socket."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration, Instance, read
from jamcore.testing.sbx.sandboxd import box
from jamcore.testing.sbx.sandboxd.creating import create
from jamcore.testing.sbx.sandboxd.execution import Execution
from jamcore.testing.sbx.sandboxd.guests import Guests
from jamcore.testing.sbx.sandboxd.methods import Methods
from jamcore.testing.sbx.sandboxd.refusal import RefusedError
from jamcore.testing.sbx.sandboxd.rules import Policy
from jamcore.testing.sbx.sandboxd.state import load, now, save
from jamcore.testing.sbx.sandboxd.vault import Vault

REQUEST_BYTES = 4 << 20
REQUEST_S = 60.0
LOOK_S = 1.0
LOG_BYTES = 4 << 20
CRASH_AFTER = 8


class Daemon:
    """All of one daemon."""

    def __init__(self, place: Instance, told: Configuration) -> None:
        self.place = place
        self.root = place.root
        self.gates = Gates(told.version)
        self.state = load(place.sandboxd)
        self.policy = Policy(self.state)
        self.vault = Vault(self.state)
        self.guests = Guests(place, self.state, self.gates, self.told, self.policy, self.vault)
        self.guests.save, self.guests.log = self.save, self.log
        self.guests.agent_socket = os.environ.get("SSH_AUTH_SOCK", "")
        self.methods = Methods(self.guests, self.policy, self.vault, self.gates, self.told)
        self.execution = Execution(self.guests, self.told)
        self.ending = asyncio.Event()
        self.image_free = asyncio.Event()
        self.image_free.set()
        self.executed = 0
        if self.state.fresh and not place.fresh:
            self.state.fresh = False
            if told.policy:
                self.policy.init(told.policy)
        if told.bug("lost-after-sleep"):
            self.state.sandboxes.clear()

    def told(self) -> Configuration:
        """Return how the simulator is to behave at this moment."""
        with contextlib.suppress(OSError, ValueError):
            return read(self.root)
        return Configuration()

    def save(self) -> None:
        """Keep the state."""
        save(self.place.sandboxd, self.state)

    def log(self, text: str) -> None:
        """Write a line, while the log is not too long."""
        with self.place.log.open("a", encoding="utf-8") as stream:
            if stream.tell() < LOG_BYTES:
                stream.write(f"{now()} {text}\n")

    # ------------------------------------------------------------------ serving

    async def serve(self, listener: socket.socket) -> None:
        """Serve until it is told to end, its state is gone, or its time is over."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ending.set)
        tasks: set[asyncio.Task[None]] = set()
        accepting = asyncio.ensure_future(self._accept(listener, tasks))
        deadline = loop.time() + self.told().daemon_limit_s
        while not self.ending.is_set() and self.place.sandboxd.is_dir() and loop.time() < deadline:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ending.wait(), LOOK_S)
        accepting.cancel()
        await self.guests.stop_all()
        for task in tasks:
            task.cancel()
        await asyncio.gather(accepting, *tasks, return_exceptions=True)
        if self.place.sandboxd.is_dir():
            self.save()

    async def _accept(self, listener: socket.socket, tasks: set[asyncio.Task[None]]) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            connection.setblocking(False)
            task = asyncio.ensure_future(self._connection(connection))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _connection(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, TimeoutError, ValueError):
            data = b""
            async with asyncio.timeout(REQUEST_S):
                while not data.endswith(b"\n") and len(data) < REQUEST_BYTES:
                    chunk = await asyncio.get_running_loop().sock_recv(connection, 1 << 16)
                    if not chunk:
                        return
                    data += chunk
            await self._request(json.loads(data), connection)

    async def _request(self, asked: Mapping[str, Any], connection: socket.socket) -> None:
        told = self.told()
        if told.bug("daemon-hangs"):
            await self.ending.wait()
            return
        method, how = asked["method"], asked["how"]
        if asked.get("die") == "first":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            if method == "exec":
                self.executed += 1
                if told.bug("daemon-crashes") and self.executed >= CRASH_AFTER:
                    os.kill(os.getpid(), signal.SIGKILL)
                await self.execution.run(connection, how)
                return
            answer = {"result": await self._do(method, how, told)}
        except RefusedError as refused:
            answer = {"error": refused.text, "hint": refused.hint}
        except box.BoxError as error:
            answer = {"error": f"failed to run sandbox container: {error}", "hint": ""}
        if asked.get("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.get_running_loop().sock_sendall(connection, json.dumps(answer).encode() + b"\n")

    async def _do(self, method: str, how: Mapping[str, Any], told: Configuration) -> object:
        if method == "create":
            return await self._create(how, told)
        if told.bug("image-lock"):
            await self.image_free.wait()
        if method == "ls":
            if told.bug("exec-blocks-ls"):
                await self.execution.idle()
            if told.bug("catch-all-hangs-ls") and any("**" in each["resources"] and each["editable"] for each in self.state.rules):
                await self.ending.wait()
        if method == "shutdown":
            self.ending.set()
            return {}
        do: Callable[..., Awaitable[object]] = getattr(self.methods, f"do_{method}")
        result = await do(**how)
        self.save()
        return result

    async def _create(self, how: Mapping[str, Any], told: Configuration) -> object:
        if told.bug("image-lock"):
            self.image_free.clear()
            await self.ending.wait()
        return await create(self.guests, self.policy, told, self.gates, how)


def listening(place: Instance) -> socket.socket:
    """Return a socket that listens at the daemon's place, however long its path is."""
    place.socket.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    directory = os.open(place.sandboxd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{directory}/{place.socket.name}")
    finally:
        os.close(directory)
    listener.listen(128)
    listener.setblocking(False)
    return listener


async def _run(place: Instance, *, foreground: bool) -> None:
    daemon = Daemon(place, read(place.root))
    daemon.save()
    listener = listening(place)
    daemon.log(f"daemon {daemon.gates.full} started")
    if not foreground:
        print("ready", flush=True)
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)
        os.close(devnull)
    try:
        await daemon.serve(listener)
    finally:
        daemon.log("daemon ended")
        place.socket.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line: the simulator's root, the key of the state, and whether it is in somebody's foreground."""
    root, key, *foreground = arguments or sys.argv[1:]
    place = Instance(Path(root), key).make()
    lock = os.open(place.sandboxd / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another daemon has this state", file=sys.stderr)
        return 1
    pid = place.sandboxd / "daemon.pid"
    pid.write_text(str(os.getpid()), encoding="utf-8")
    asyncio.run(_run(place, foreground=bool(foreground)))
    pid.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
