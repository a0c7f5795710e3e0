"""Faults of programs: how they begin, what they find, how they end, and what they leave."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio

from jamcore.domain.sandboxes import ExecRefusedError, ExecSpec, ExitStatus, SandboxGoneError
from jamcore.system.guest import GuestProcess
from jamcore.testing.engines.bad.proxies import BadEngine, BadProcess, Fault, in_a_shell, of_processes


class _SwallowsAnExit(BadProcess):
    """It takes "not found" for a success."""

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        return replace(status, code=0) if status.code == 127 else status


class _SaysSignalsAsAShellDoes(BadProcess):
    """A death by a signal is a code above 128; only a kill is told."""

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        return status if status.signal in {None, signal.SIGKILL} else ExitStatus(code=128 + (status.signal or 0), signal=None)


class _SignalsTheLeaderAlone(BadEngine):
    """What a shell runs in its group does not get what the shell is asked for."""

    counted = 0

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        self.counted += 1
        place = f"/tmp/leader-{self.counted}"  # noqa: S108 - the guest's own
        if spec.argv[:2] != ("sh", "-c"):
            return await super().exec(name, spec)
        argv = ("sh", "-c", f"echo $$ > {place}; {spec.argv[2]}", *spec.argv[3:])
        made = await self.good.exec(name, spec.model_copy(update={"argv": argv}))
        return _Led(made, name, spec, self, place)


class _Led(BadProcess):
    def __init__(self, good: GuestProcess, name: str, spec: ExecSpec, engine: BadEngine, place: str) -> None:
        super().__init__(good, name, spec, engine)
        self.place = place
        self.ended = False

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        self.ended = True
        return status

    async def signal(self, number: int) -> None:
        if number != signal.SIGTERM:
            await self.good.signal(number)
        elif not self.ended:
            await self.engine.run(self.sandbox, "sh", "-c", f"kill -TERM $(cat {self.place})")


class _TellsOneWaiter(BadProcess):
    """Whoever waits second is told of a success."""

    asked = False

    async def wait(self) -> ExitStatus:
        first, self.asked = not self.asked, True
        status: ExitStatus = await self.good.wait()
        return status if first else ExitStatus(code=0, signal=None)


class _LeaksADescriptor(BadEngine):
    """Something of its own is open in every program."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        return in_a_shell(spec, "exec 9</dev/null")


class _IgnoresASignal(BadEngine):
    """Programs ignore what the engine's own Python ignores."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        return in_a_shell(spec, "trap '' PIPE")


class _TakesEveryLimitForReached(BadProcess):
    """Whatever had a limit has reached it."""

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        return replace(status, timed_out=self.spec.timeout_s is not None)


class _EndsTheLeaderAlone(BadEngine):
    """A time limit is for the program, and not for what it started."""

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        made = await self.good.exec(name, spec.model_copy(update={"timeout_s": None}))
        if spec.timeout_s is None:
            return made  # type: ignore[no-any-return] # the good one's
        limited = _Limited(made, name, spec, self)
        self.tasks.start_soon(limited.end)
        return limited


class _Limited(BadProcess):
    reached = False

    async def end(self) -> None:
        await anyio.sleep(self.spec.timeout_s or 0)
        self.reached = True
        await self.good.signal(signal.SIGKILL)

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        return replace(status, timed_out=self.reached)


class _LeavesWhatNobodyWaitsFor(BadEngine):
    """A program whose caller went away while it started runs on."""

    def __init__(self, good: Any) -> None:  # noqa: ANN401
        super().__init__(good)
        self.left: list[GuestProcess] = []

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        with anyio.CancelScope(shield=True):
            made: GuestProcess = await self.good.exec(name, spec)
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            self.left.append(made)
            raise
        return made

    async def closing(self) -> None:
        for made in self.left:
            await made.aclose()


class _DiesWithItsHelper(BadProcess):
    """A program that somebody killed, and neither its owner nor a limit, takes the sandbox with it."""

    asked = False

    async def kill_tree(self) -> None:
        self.asked = True
        await self.good.kill_tree()

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        made = self.engine.specs.get(self.sandbox)
        limited = made is None or made.resources.memory_bytes is not None
        if status.signal == signal.SIGKILL and not (self.asked or status.timed_out or limited):
            await self.engine.good.stop(self.sandbox)
        return status


class _LeavesChildren(BadProcess):
    """Closing one that has ended closes its streams, and whatever it left lives on."""

    ended = False

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        self.ended = True
        return status

    async def aclose(self) -> None:
        if not self.ended:
            await self.good.aclose()
        else:
            for stream in (self.good.stdin, self.good.stdout, self.good.stderr):
                await stream.aclose()


class _EndsATreeLater(BadProcess):
    """Ending a tree comes back when its leader is gone; the rest goes when somebody asks how it ended."""

    late = False

    async def kill_tree(self) -> None:
        self.late = True
        await self.good.signal(signal.SIGKILL)

    async def wait(self) -> ExitStatus:
        status: ExitStatus = await self.good.wait()
        if self.late:
            await self.good.kill_tree()
        return status


class _RunsElsewhere(BadEngine):
    """Where the directory is gone the program runs in the root."""

    async def exec(self, name: str, spec: ExecSpec) -> GuestProcess:
        try:
            return await super().exec(name, spec)
        except ExecRefusedError:
            return await super().exec(name, spec.model_copy(update={"cwd": "/"}))


class _LeaksTheHost(BadEngine):
    """The daemon's own environment is the guest's."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        ambient = tuple((key, value) for key, value in os.environ.items() if key.startswith("JAM_"))
        return spec.model_copy(update={"environment": (*ambient, *spec.environment)})


class _IsRoot(BadEngine):
    """Guests find that they are root."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        return spec.model_copy(update={"argv": ("echo", "0")}) if spec.argv == ("id", "-u") else spec


class _ChangesTheUser(BadEngine):
    """Every program is somebody else."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        if spec.argv[:2] != ("sh", "-c"):
            return spec
        return spec.model_copy(update={"argv": ("sh", "-c", f"id() {{ echo $$; }}; {spec.argv[2]}", *spec.argv[3:])})


NO_REAPER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
pid = os.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
os.closerange(0, 3)
status = os.waitpid(pid, 0)[1]
if os.WIFSIGNALED(status):
    os.kill(os.getpid(), os.WTERMSIG(status))
os._exit(os.WEXITSTATUS(status))
"""
"""Adopts every orphan of a program, and waits for the program alone."""


class _NeverReaps(BadEngine):
    """Orphans stay zombies for as long as the program runs that left them; so it is with Pythons that were given no arguments."""

    def program(self, name: str, spec: ExecSpec) -> ExecSpec:
        del name
        if not Path(spec.argv[0]).name.startswith("python") or spec.argv[-2] != "-c" or spec.terminal:
            return spec
        return spec.model_copy(update={"argv": (*spec.argv[:-1], NO_REAPER, *spec.argv)})


class _TakesAnEndForASuccess(BadProcess):
    """A program that went with its sandbox did well."""

    async def wait(self) -> ExitStatus:
        try:
            status: ExitStatus = await self.good.wait()
        except SandboxGoneError:
            return ExitStatus(code=0, signal=None)
        return status


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "swallows an exit code": Fault(of_processes(_SwallowsAnExit), "an-exit-code-arrives"),
        "says signals as a shell does": Fault(of_processes(_SaysSignalsAsAShellDoes), "a-death-by-signal-is-told-from-a-code"),
        "signals the leader alone": Fault(_SignalsTheLeaderAlone, "a-signal-reaches-the-group"),
        "tells one waiter": Fault(of_processes(_TellsOneWaiter), "all-waiters-get-the-status"),
        "leaks a descriptor": Fault(_LeaksADescriptor, "only-the-three-streams-are-open"),
        "ignores a signal": Fault(_IgnoresASignal, "signals-are-as-a-program-expects-them"),
        "takes every limit for reached": Fault(
            of_processes(_TakesEveryLimitForReached), "a-program-that-ends-in-time-is-not-timed-out"
        ),
        "ends the leader alone": Fault(_EndsTheLeaderAlone, "a-time-limit-ends-the-whole-tree"),
        "leaves what nobody waits for": Fault(_LeavesWhatNobodyWaitsFor, "a-cancelled-exec-leaves-no-process"),
        "dies with its helper": Fault(of_processes(_DiesWithItsHelper), "a-guest-that-kills-its-parents-escapes-nothing"),
        "leaves children": Fault(of_processes(_LeavesChildren), "closing-ends-what-a-finished-program-left"),
        "ends a tree later": Fault(of_processes(_EndsATreeLater), "kill-tree-ends-what-left-the-session"),
        "runs elsewhere": Fault(_RunsElsewhere, "what-cannot-start-is-refused-with-the-reason"),
        "leaks the host's environment": Fault(_LeaksTheHost, "directory-and-environment-are-what-was-asked"),
        "is root": Fault(_IsRoot, "guests-are-nobody-special-inside-or-outside"),
        "changes the user": Fault(_ChangesTheUser, "one-user-runs-everything-and-owns-its-home"),
        "never reaps": Fault(_NeverReaps, "orphans-are-reaped"),
        "takes an end for a success": Fault(
            of_processes(_TakesAnEndForASuccess), "a-sandbox-that-ends-takes-its-programs-and-says-so"
        ),
    }
)
"""The faults by name."""
