"""A prepared sandbox, bound to exactly the plan and the policy that were prepared (PREP-2)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from jamcore.domain.errors import FaultError
from jamcore.domain.plan import ModelEndpoint, Plan
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import ExecRefusedError, ExecSpec
from jamcore.engines.port import Engine
from jamcore.sandbox.commands import run_command
from jamcore.sandbox.ensure import Ensured, Renewal
from jamcore.sandbox.environment import guest_environment
from jamcore.sandbox.places import GuestView
from jamcore.system.guest import GuestProcess


class NetworkPolicy(Record):
    """What a sandbox may reach: nothing but this endpoint, and with ``None`` nothing at all."""

    endpoint: ModelEndpoint | None


@dataclass(eq=False)
class PreparationMismatchError(FaultError):
    """A start was asked for with another plan or policy than the prepared one; nothing was started (PREP-2)."""

    code: ClassVar[str] = "prepare.mismatch"

    sandbox: str
    part: str


class EndpointRoute(Protocol):
    """Where a guest's connections to the model endpoint go: the relay of exactly this endpoint (SEC-4)."""

    @property
    def endpoint(self) -> ModelEndpoint:
        """The endpoint that it serves."""

    def accept(self, connection: socket.socket) -> None:
        """Take over a connected socket."""


class Door(Protocol):
    """Where connections come in when a guest's loopback is the host's: somebody else listens there and asks who comes."""

    def hand_to(self, take: Callable[[socket.socket], None]) -> None:
        """Give every connection to ``take``."""


class Gate:
    """Stands between the engine and the route. The engine wants to know it before the sandbox starts; it opens when the policy holds."""

    def __init__(self) -> None:
        self._route: EndpointRoute | None = None

    def open(self, route: EndpointRoute) -> None:
        """Let connections through from now on."""
        self._route = route

    def close(self) -> None:
        """Refuse connections from now on; those that were let through go on."""
        self._route = None

    def accept(self, connection: socket.socket) -> None:
        """Hand a connection on, or close it while the gate is shut."""
        if self._route is None:
            connection.close()
        else:
            self._route.accept(connection)


class PreparedExec:
    """Starts processes in one prepared sandbox: what a plugin gets as its launcher.

    Made by :class:`~jamcore.sandbox.prepare.Preparer` alone. The version probe and the provider's start share it (PREP-3).
    """

    def __init__(
        self,
        *,
        engine: Engine,
        plan: Plan,
        policy: NetworkPolicy,
        outcome: Ensured,
        gate: Gate,
        renewal: Renewal | None = None,
        view: GuestView | None = None,
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._policy = policy
        self._outcome = outcome
        self._renewal = renewal
        self._gate = gate
        self._environment: tuple[tuple[str, str], ...] = ()
        self._view = view or GuestView(())

    @property
    def plan(self) -> Plan:
        """The plan that was prepared."""
        return self._plan

    @property
    def policy(self) -> NetworkPolicy:
        """The policy that was prepared."""
        return self._policy

    @property
    def view(self) -> GuestView:
        """What the guest sees of the plan."""
        return self._view

    @property
    def outcome(self) -> Ensured:
        """Whether the sandbox was made, started or found running."""
        return self._outcome

    @property
    def renewal(self) -> Renewal | None:
        """What became of the guest's own proof, if it did not hold and the engine's did (OWN-8)."""
        return self._renewal

    def configure_environment(self, plan: Plan, policy: NetworkPolicy, pairs: tuple[tuple[str, str], ...]) -> None:
        """Set what every later process gets besides the plan's environment; the caller presents what it believes was prepared.

        Raises:
            PreparationMismatchError: Another plan or policy was prepared (PREP-2).
            EnvironmentRefusedError: A variable may not enter a guest (ENV-2).
        """
        for part, given, prepared in (("plan", plan, self._plan), ("policy", policy, self._policy)):
            if given != prepared:
                raise PreparationMismatchError(sandbox=self._plan.name, part=part)
        guest_environment(self._view.environment(self._plan.environment), pairs)
        self._environment = pairs

    async def start(self, argv: tuple[str, ...], *, cwd: str, environment: tuple[tuple[str, str], ...] = ()) -> GuestProcess:
        """Start a long-lived process. The caller owns and closes it. See :class:`~jamcore.plugins.runtime.GuestLauncher`.

        Raises:
            EnvironmentRefusedError: A variable may not enter a guest.
            SandboxGoneError: The sandbox is not running.
            ExecRefusedError: The program could not be started.
        """
        with self._refused_by_name():
            return await self._engine.exec(self._plan.name, self._spec(argv, cwd, environment))

    async def run(
        self,
        argv: tuple[str, ...],
        *,
        cwd: str,
        timeout_s: float,
        limit: int = 65_536,
        environment: tuple[tuple[str, str], ...] = (),
    ) -> tuple[int | None, bytes]:
        """Run a short command to its end; return its code (``None``: a signal or the time limit) and its standard output.

        See :class:`~jamcore.plugins.runtime.GuestLauncher`.

        Raises:
            EnvironmentRefusedError: A variable may not enter a guest.
            SandboxGoneError: The sandbox is not running.
            ExecRefusedError: The program could not be started.
        """
        spec = self._spec(argv, cwd, environment)
        with self._refused_by_name():
            result = await run_command(self._engine, self._plan.name, spec, timeout_s=timeout_s, limit=limit)
        return result.code, result.output

    def shut(self) -> None:
        """Close the way to the endpoint; done before the sandbox is parked."""
        self._gate.close()

    @contextmanager
    def _refused_by_name(self) -> Iterator[None]:
        """Say whose program it is that could not be started: what to do about it is said by the provider's name."""
        try:
            yield
        except ExecRefusedError as refused:
            raise replace(refused, provider=self._plan.provider) from refused

    def _spec(self, argv: tuple[str, ...], cwd: str, environment: tuple[tuple[str, str], ...]) -> ExecSpec:
        checked = guest_environment(self._view.environment(self._plan.environment), self._environment, environment)
        added = tuple(pair for pair in checked if pair not in self._plan.environment)
        return ExecSpec(argv=argv, cwd=cwd, environment=added)
