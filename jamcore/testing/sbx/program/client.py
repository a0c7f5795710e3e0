"""The way to the daemon: it is started where it has to be, and each request has a connection of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from jamcore.testing.sbx.behaviours import Gates
from jamcore.testing.sbx.configuration import Configuration, Instance, locked
from jamcore.testing.sbx.program.console import Console, Failure

START_S = 60.0
ANSWER_BYTES = 16 << 20


class Client:
    """The program's side of the daemon's socket."""

    def __init__(self, place: Instance, told: Configuration, gates: Gates, console: Console, environment: dict[str, str]) -> None:
        self.place = place
        self.told = told
        self.gates = gates
        self.console = console
        self.environment = environment
        self.die = ""
        self.may_start = True
        self._checked = False

    def connect(self) -> socket.socket | None:
        """Return a connection to the daemon, if there is one."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            directory = os.open(self.place.sandboxd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                connection.connect(f"/proc/self/fd/{directory}/{self.place.socket.name}")
            finally:
                os.close(directory)
        except OSError:
            connection.close()
            return None
        return connection

    def running(self) -> dict[str, Any] | None:
        """Return what a daemon says of itself; nothing when there is none."""
        connection = self.connect()
        if connection is None:
            return None
        with connection:
            answer: dict[str, Any] = self._exchange(connection, "hello", {})
            return answer

    def call(self, method: str, **how: Any) -> Any:  # noqa: ANN401 - JSON
        """Ask the daemon for something.

        Raises:
            Failure: It refuses, or is not there.
        """
        with self.open() as connection:
            return self._exchange(connection, method, how)

    def open(self) -> socket.socket:
        """Return a connection to a daemon of the right version, which is started where there is none.

        Raises:
            Failure: It does not come up.
        """
        self._ensure()
        connection = self.connect()
        if connection is None:
            raise Failure(f"ensure daemon: daemon failed to start properly within 1m0s\ncheck logs at: {self.place.log}")
        return connection

    def _ensure(self) -> None:
        if self._checked:
            return
        self._checked = True
        if self.told.bug("daemon-hangs") and (connection := self.connect()) is not None:
            connection.close()
            return
        found = self.running()
        if found is None:
            self.start()
        elif found["version"] != self.gates.full:
            self.mismatch(found["version"])

    def start(self) -> None:
        """Start the daemon, with its lines on stdout (``daemon.start-lines``).

        Raises:
            Failure: It does not come up.
        """
        self.place.make()
        self.console.print("Starting sandboxd daemon...")
        with locked(self.place.sandboxd / "start.lock"):
            if (found := self.running()) is None:
                found = {"pid": self._spawn()}
        self.console.print(f"Daemon started (PID: {found['pid']}, socket: {self.place.socket})", f"Logs: {self.place.log}")

    def foreground(self) -> NoReturn:
        """Become the daemon."""
        self.place.make()
        argv, kept = self._daemon()
        os.chdir("/")
        os.execve(argv[0], (*argv, "--foreground"), kept)  # noqa: S606 - without a shell, as it has to be

    def _daemon(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the daemon's command line, and what it has of this environment."""
        argv = (sys.executable, "-P", "-m", "jamcore.testing.sbx.sandboxd.daemon", str(self.place.root), self.place.key)
        kept: dict[str, str] = {
            name: self.environment[name]
            for name in ("PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "PYTHONPATH")
            if name in self.environment
        }
        return argv, kept

    def _spawn(self) -> int:
        argv, kept = self._daemon()
        with self.place.log.open("ab") as log:
            process = subprocess.Popen(
                argv, env=kept, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert process.stdout is not None
        deadline = time.monotonic() + START_S
        with process.stdout as said:
            word = said.readline()
        if word != b"ready\n" or time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                process.kill()
            raise Failure(f"ensure daemon: daemon exited unexpectedly: exit status 1 stderr: \ncheck logs at: {self.place.log}")
        number = process.pid
        process.returncode = 0  # it outlives this process; nobody waits for it
        return number

    def mismatch(self, server: str) -> None:
        """Ask whether to restart a daemon of another version (``mismatch.prompt``).

        Raises:
            Failure: The answer is no.
        """
        self.console.print(f"Client Version: {self.gates.full}", f"Server Version: {server}")
        self.console.print("Docker Sandboxes has been updated and needs to restart. All running sandboxes will be stopped.")
        if self.console.ask("Restart now? (y/N): "):
            self.shutdown()
            self.start()
        elif self.gates("mismatch.declined"):
            raise Failure("the daemon has another version; restart declined", "sbx daemon restart")

    def shutdown(self) -> bool:
        """Have the daemon end, and wait for it; say whether there was one."""
        connection = self.connect()
        if connection is None:
            return False
        with connection:
            pid = int((self.place.sandboxd / "daemon.pid").read_text(encoding="utf-8"))
            with suppress(Failure):
                self._exchange(connection, "shutdown", {})
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            _wait(descriptor, START_S)
        finally:
            os.close(descriptor)
        return True

    def _exchange(self, connection: socket.socket, method: str, how: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
        asked = {"method": method, "how": how} | ({"die": self.die} if self.die and method != "hello" else {})
        try:
            connection.sendall(json.dumps(asked).encode() + b"\n")
            data = b""
            while not data.endswith(b"\n") and len(data) < ANSWER_BYTES:
                chunk = connection.recv(1 << 16)
                if not chunk:
                    raise Failure(f'request failed: Post "http://sandboxd/{method}": EOF')
                data += chunk
        except OSError as error:
            raise Failure(f'request failed: Post "http://sandboxd/{method}": {error.strerror}') from error
        answer = json.loads(data)
        if "error" in answer:
            raise Failure(answer["error"], answer["hint"])
        return answer["result"]


def _wait(descriptor: int, limit_s: float) -> None:
    import select  # late: most commands end no daemon

    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(limit_s * 1000)
