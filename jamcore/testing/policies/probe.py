"""A provider that is nobody's, around which policies are tried: it has every cell and every hook, counts its calls, and fails when told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from jamcore.domain.cells import FULL_CELLS, Ability, Cell
from jamcore.domain.continuity import ActivationPlan, CaptureEntry, CaptureKind, CaptureList
from jamcore.domain.plan import ExtraMount, PlanContext, PlanContribution
from jamcore.domain.provider_rules import plan_context
from jamcore.domain.providers import PlacementAnswer, PlacementRequest, Preparation, PreparedFile, ProviderDescription
from jamcore.domain.sandboxes import Access
from jamcore.plugins.declared import ResumableProvider
from jamcore.plugins.hookspecs import hookimpl
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.plugins.validation import new_manager

NAME = "probe"
SEATS = 4
VERSION, NEWER = "1.0.0", "2.0.0"
ENDPOINT = "https://probe.example.com"
DENIED = "denied.example.com"
"""A host that another policy denies already."""
REQUESTS = tuple(
    f"{method} /v1/{path}"
    for method in ("GET", "POST")
    for path in ("chat/completions", "responses", "messages", "models", "files")
)
"""What providers ask of their endpoints, so that a policy finds something to deny."""


class ProbeError(Exception):
    """The probe was told to fail."""


class Probe(ResumableProvider):
    """The provider. ``calls`` counts how often each hook was asked; with ``fails`` each answer is a :class:`ProbeError`."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    seats = SEATS
    description = ProviderDescription(
        name=NAME,
        title="Probe",
        cells=FULL_CELLS,
        toolchain=None,
        credential=None,
        default_origin=ENDPOINT,
        continuity=True,
        threads_share_process=True,
    )
    capture = CaptureList(
        entries=(CaptureEntry(pattern="threads/*.jsonl", kind=CaptureKind.APPEND_ONLY),),
        credential_patterns=("login.json",),
        conversation_patterns=("threads/{identity}.jsonl",),
    )
    activation = ActivationPlan(delete=("cache/**",), check=("threads/*.jsonl",))

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.fails = False

    def _asked(self, hook: str) -> None:
        self.calls[hook] += 1
        if self.fails:
            raise ProbeError(hook)

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Contribute something of every kind."""
        self._asked("jam_contribute_plan")
        return PlanContribution(
            agent_image=NAME,
            state_subdirectories=("threads", "settings"),
            guest_directories=(".probe",),
            extra_mounts=(
                ExtraMount(subdirectory="settings", guest_path=f"{context.state_root}/settings", access=Access.READ_ONLY),
            ),
            environment=(("PROBE_HOME", context.state_root), ("PROBE_TELEMETRY", "off")),
            endpoint_paths=REQUESTS,
            denied_hosts=(DENIED,),
        )

    @hookimpl
    def jam_prepare(self, context: PlanContext) -> Preparation:
        """Prepare a file."""
        self._asked("jam_prepare")
        return Preparation(files=(PreparedFile(path="settings/probe.json", content=f'{{"home": "{context.home}"}}'),))

    @hookimpl
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Place as every provider does."""
        self._asked("jam_place_session")
        return super().jam_place_session(request)

    @hookimpl
    def jam_declare_capture(self) -> CaptureList:
        """Declare."""
        self._asked("jam_declare_capture")
        return self.capture

    @hookimpl
    def jam_declare_activation(self) -> ActivationPlan:
        """Declare."""
        self._asked("jam_declare_activation")
        return self.activation

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Accept the same."""
        self._asked("jam_accepts_version")
        return captured == current

    @hookimpl
    async def jam_open_runtime(self) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Return what nobody enters."""
        return _NoRuntime()


class _NoRuntime(AbstractAsyncContextManager[ProviderRuntime]):
    """The context of a program that there is none of."""

    async def __aexit__(self, *error: object) -> None:
        """Leave."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a hook.

    Attributes:
        hook: The hook.
        arguments: What it is given.
        ask: The same through the typed facade.
        about: Which case it is, in words.
    """

    hook: str
    arguments: Mapping[str, Any]
    ask: Callable[[ProviderHooks], Awaitable[object]]
    about: str = ""

    @property
    def title(self) -> str:
        """The hook and the case."""
        return f"{self.hook}{self.about}"

    def of(self, *plugins: object) -> object:
        """Return what the hook answers of these plugins, in this thread and unchecked."""
        manager = new_manager()
        for plugin in plugins:
            manager.register(plugin)
        return getattr(manager.hook, self.hook)(**self.arguments)


def questions() -> Iterator[Question]:
    """Yield everything that a policy may wrap, for each cell with all that an engine may be able to do, and with the least."""
    for cell in sorted(FULL_CELLS, key=str):
        for abilities in (cell.needs(), frozenset(Ability)):
            yield from _of_cell(cell, abilities)
    for seats in (0, SEATS):
        yield _placement(seats)
    yield Question("jam_declare_capture", _NONE, lambda hooks: hooks.declare_capture())
    yield Question("jam_declare_activation", _NONE, lambda hooks: hooks.declare_activation())
    for captured, current in ((VERSION, VERSION), (NEWER, VERSION)):
        yield _version(captured, current)


def _of_cell(cell: Cell, abilities: frozenset[Ability]) -> Iterator[Question]:
    context = plan_context(NAME, cell, abilities)
    about, arguments = f" for {cell}", MappingProxyType({"context": context})
    yield Question("jam_contribute_plan", arguments, lambda hooks: hooks.contribute_plan(context), about)
    yield Question("jam_prepare", arguments, lambda hooks: hooks.prepare(context), about)


def _placement(seats: int) -> Question:
    request = PlacementRequest(seats=seats)
    arguments = MappingProxyType({"request": request})
    return Question("jam_place_session", arguments, lambda hooks: hooks.place_session(request), f" beside {seats}")


def _version(captured: str, current: str) -> Question:
    arguments = MappingProxyType({"captured": captured, "current": current})
    return Question(
        "jam_accepts_version", arguments, lambda hooks: hooks.accepts_version(captured, current), f" {captured} by {current}"
    )


_NONE: Mapping[str, Any] = MappingProxyType({})


async def probed(policy: tuple[str, object] | None = None) -> tuple[ProviderManager, Probe]:
    """Return a manager with the probe, and a policy of this name where one is given."""
    manager, probe = ProviderManager(), Probe()
    report = await manager.add(NAME, probe)
    assert not report.violations, report.violations
    if policy is not None:
        await manager.add_policy(*policy)
    probe.calls.clear()
    return manager, probe
