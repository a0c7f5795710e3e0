"""The published handle of a simulated sbx: it installs the program, says how it behaves, and ends all that was started."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jamcore.testing.guards import Process, descendants, kill, settle
from jamcore.testing.sbx import configuration
from jamcore.testing.sbx.asking import Program
from jamcore.testing.sbx.bugs import BUGS, FAULTS
from jamcore.testing.sbx.configuration import DEFAULT, Configuration, Fault, Governance, Image, Instance
from jamcore.testing.sbx.known import VERSIONS

PID = "daemon.pid"
END_S = 30.0
"""How long a daemon may take to stop its sandboxes and end: tens of milliseconds, seconds on a busy machine."""


class Simulator(Program):
    """A simulated sbx that is a program of its own, with state of its own; many live beside each other.

    Use it as a context manager: at its end no daemon, no sandbox and no mount of it is left, whatever its callers did.

    Args:
        root: An empty directory for the program and its state; its path may be long.
        version: One of ``0.35``, ``0.39``, ``0.43``, ``0.47``.
        said: Other fields of :class:`~jamcore.testing.sbx.configuration.Configuration`.

    Raises:
        ValueError: It cannot be this.
    """

    def __init__(self, root: Path, version: str = "0.47", **said: Any) -> None:
        self.root = root.resolve()
        self.instance = Instance(self.root, DEFAULT)
        self.directory = self.root / "bin"
        """What a driver has in its ``PATH``."""
        self.program = self.directory / "sbx"
        self.environment = {
            "PATH": f"{self.directory}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "SBX_NO_TELEMETRY": "1",
        }
        """A small environment to run the program with: nothing of the person's own."""
        _check(version, said)
        self._install(Configuration(version=version, **said))

    def _install(self, told: Configuration) -> None:
        self.directory.mkdir(parents=True)
        (self.root / "home").mkdir()
        configuration.write(self.root, told)
        script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m jamcore.testing.sbx {shlex.quote(str(self.root))} "$@"\n'
        self.program.write_text(script, encoding="utf-8")
        self.program.chmod(0o755)

    @property
    def socket(self) -> Path:
        """Where its daemon listens."""
        return self.instance.socket

    @property
    def log(self) -> Path:
        """What its daemon wrote."""
        return self.instance.log

    def configure(self, **changes: Any) -> Configuration:
        """Change how it behaves from the next command on. A running daemon keeps its version and sees the rest.

        Raises:
            ValueError: It cannot be this.
        """
        _check(changes.get("version", VERSIONS[-1]), changes)
        return configuration.change(self.root, **changes)

    def bug(self, *names: str, on: bool = True) -> None:
        """Switch bugs on or off.

        Raises:
            ValueError: There is no such switch.
        """
        others = [bug for bug in configuration.read(self.root).bugs if bug not in names]
        self.configure(bugs=(*others, *(names if on else ())))

    def fault(self, command: str, kind: str, **how: Any) -> None:
        """Ask for a fault: see :class:`~jamcore.testing.sbx.configuration.Fault`.

        Raises:
            ValueError: There is no such kind.
        """
        self.configure(faults=(*configuration.read(self.root).faults, Fault(command, kind, **how)))

    def daemons(self) -> tuple[int, ...]:
        """Return the numbers of the daemons that live: usually one or none."""
        found = []
        for path in sorted((self.root / "instances").glob(f"*/sandboxes/sandboxes/sandboxd/{PID}")):
            with suppress(OSError, ValueError):
                number = int(path.read_text(encoding="utf-8"))
                if str(self.root).encode() in Path(f"/proc/{number}/cmdline").read_bytes():
                    found.append(number)
        return tuple(found)

    def kill_daemon(self) -> None:
        """Kill it as the kernel would."""
        for number in self.daemons():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def end(self) -> tuple[Process, ...]:
        """End every daemon with all below it, and return what would not end by itself (and was killed)."""
        below = [process for number in self.daemons() for process in (*descendants(number), *_process(number))]
        for number in self.daemons():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGTERM)
        left = settle(below, END_S)
        kill(left)
        return left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        left = self.end()
        shutil.rmtree(self.root / "instances", ignore_errors=True)
        assert not left, f"a daemon or a sandbox did not end when it was told: {left}"


def _process(number: int) -> tuple[Process, ...]:
    with suppress(OSError):
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
        return (Process(number, int(fields[19]), int(fields[3]), "sandboxd"),)
    return ()


def _check(version: str, said: Mapping[str, Any]) -> None:
    if version not in VERSIONS:
        raise ValueError(f"version {version}: known are {', '.join(VERSIONS)}")
    faults: Sequence[Fault] = said.get("faults", ())
    if unknown := [name for name in said.get("bugs", ()) if name not in BUGS]:
        raise ValueError(f"no such bug: {', '.join(unknown)}")
    if unknown := [fault.kind for fault in faults if fault.kind not in FAULTS]:
        raise ValueError(f"no such fault: {', '.join(unknown)}")


__all__ = ["Configuration", "Fault", "Governance", "Image", "Simulator"]
