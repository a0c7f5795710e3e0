"""The same program spoken to without Jam: a plain child of this process, its JSON lines on two pipes, nothing in between."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jam_codex import config
from jamcore.api import RuntimeRequest, ThreadRequest

CLIENT: Mapping[str, object] = {
    "clientInfo": {"name": "bench", "title": "Bench", "version": "0"},
    "capabilities": {"experimentalApi": True},
}


class DirectCodex:
    """One ``codex app-server`` with the very arguments that Jam's plugin gives it. Synchronous: nothing is cheaper."""

    def __init__(self, tools: Path, home: Path, relay_url: str, cwd: Path) -> None:
        self._request = RuntimeRequest(
            tools_root=str(tools),
            state_root=str(home),
            home=str(home),
            relay_url=relay_url,
            start_directory=str(cwd),
            expected_version=None,
        )
        self._home = home
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._id = 0
        self.thread = ""

    def start(self) -> None:
        """Start the program and introduce this client."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self._home), "CODEX_HOME": str(self._home)}
        self._process = subprocess.Popen(
            config.arguments(self._request),
            cwd=self._cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._ask("initialize", CLIENT)
        self._send({"method": "initialized"})

    def open(self) -> None:
        """Open a thread."""
        self.thread = self._ask("thread/start", config.thread_settings(ThreadRequest(cwd=str(self._cwd))))["thread"]["id"]

    def resume(self) -> None:
        """Resume the thread in a new process."""
        settings = config.thread_settings(ThreadRequest(cwd=str(self._cwd)))
        self._ask("thread/resume", {"threadId": self.thread, "excludeTurns": True, **settings})

    def turn(self, text: str, until: str = "turn/completed") -> float:
        """Say something and return when the first notification ``until`` came; reads to the end of the turn."""
        self._send_request(
            "turn/start", {"threadId": self.thread, "input": [{"type": "text", "text": text}], **config.turn_settings()}
        )
        seen: float | None = None
        for message in self._messages():
            if message.get("method") == until and seen is None:
                seen = time.perf_counter()
            if message.get("method") == "turn/completed":
                status = message["params"]["turn"]["status"]
                if status != "completed" or seen is None:
                    raise RuntimeError(f"the turn ended as {status}")
                return seen
        raise RuntimeError("the program ended")

    def kill(self) -> None:
        """SIGKILL, and reap."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None

    def _ask(self, method: str, params: Mapping[str, object]) -> Any:
        number = self._send_request(method, params)
        for message in self._messages():
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
        raise RuntimeError("the program ended")

    def _send_request(self, method: str, params: Mapping[str, object]) -> int:
        self._id += 1
        self._send({"id": self._id, "method": method, "params": params})
        return self._id

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _messages(self) -> Iterator[dict[str, Any]]:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            yield json.loads(line)


@contextmanager
def direct_codex(tools: Path, root: Path, relay_url: str) -> Iterator[DirectCodex]:
    """Yield a client in directories of its own, not started; what it started is killed at the end."""
    home, cwd = root / "home", root / "work"
    home.mkdir(parents=True)
    cwd.mkdir()
    client = DirectCodex(tools, home, relay_url, cwd)
    try:
        yield client
    finally:
        client.kill()
