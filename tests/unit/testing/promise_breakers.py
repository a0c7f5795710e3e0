"""Plugins of which each breaks one promise, and one that keeps all: a module of a made-up distribution, never imported by pytest."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Self

from jamcore.api import (
    DEDICATED_MANAGED_CELLS,
    SHARED_CELL,
    Ability,
    ActivationPlan,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    CredentialReport,
    CredentialSpec,
    CredentialView,
    EngineContext,
    EngineHealth,
    Finding,
    GuestLauncher,
    Isolation,
    PlacementAnswer,
    PlacementRequest,
    PlanContext,
    PlanContribution,
    Preparation,
    PreparedFile,
    ProviderDescription,
    ProviderRuntime,
    ResumableProvider,
    RuntimeRequest,
    hookimpl,
    may_resume,
)

ORIGIN = "https://api.example.com"


class Keeps(ResumableProvider):
    """Keeps every promise."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    seats = 8
    name: ClassVar[str] = "keeps"
    default_origin: ClassVar[str] = ORIGIN
    contribution: ClassVar[PlanContribution] = PlanContribution(agent_image="it", endpoint_paths=("POST /v1/responses",))
    capture = CaptureList(
        entries=(CaptureEntry(pattern="threads/*.jsonl", kind=CaptureKind.APPEND_ONLY),),
        conversation_patterns=("threads/{identity}.jsonl",),
    )
    activation = ActivationPlan(delete=("cache/**",), check=("threads/*.jsonl",))

    @property
    def description(self) -> ProviderDescription:  # type: ignore[override]
        """What it is, under the name of the subclass."""
        return ProviderDescription(
            name=self.name,
            title="It",
            cells=DEDICATED_MANAGED_CELLS | {SHARED_CELL},
            toolchain=None,
            credential=CredentialSpec(
                name="it", environment_names=("IT_REGION",), header="authorization", prefix="Bearer ", origin=ORIGIN
            ),
            default_origin=self.default_origin,
            continuity=True,
            threads_share_process=True,
        )

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Contribute."""
        return self.contribution

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Accept the same."""
        return may_resume(captured, current, pinned="1.0.0")

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Open nothing, and nothing that could be entered."""
        return object()  # type: ignore[return-value]


class Healthy(Keeps):
    """Keeps every promise, with a runtime that can be entered."""

    name = "healthy"

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Open nothing: nobody enters it."""
        return Never()


class Never(AbstractAsyncContextManager[ProviderRuntime]):
    """A runtime that nobody opens."""

    async def __aexit__(self, *error: object) -> None:
        """Leave."""


class Unloadable(Keeps):
    """Its runtime is no context."""

    name = "unloadable"


class Curious(Healthy):
    """Reads the daemon's environment."""

    name = "curious"

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Contribute what the environment says."""
        return self.contribution.model_copy(update={"environment": (("IT_HOME", os.environ.get("IT_HOME", "/x")),)})


class Leaking(Healthy):
    """Puts the variable of its credential into the guest."""

    name = "leaking"
    contribution = Keeps.contribution.model_copy(update={"environment": (("IT_REGION", "x"),)})


class Overwriting(Healthy):
    """Prepares a file that is a conversation."""

    name = "overwriting"

    @hookimpl
    def jam_prepare(self, context: PlanContext) -> Preparation:
        """Prepare it."""
        return Preparation(files=(PreparedFile(path="threads/first.jsonl", content=""),))


class Boundless(Healthy):
    """Takes every session."""

    name = "boundless"

    @hookimpl
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Accept."""
        return PlacementAnswer(accepted=True, own_process=False)


class Careless(Healthy):
    """Is ready without a key."""

    name = "careless"

    @hookimpl
    async def jam_check_credentials(self, view: CredentialView) -> CredentialReport:
        """Be ready."""
        return CredentialReport(ready=True)


class Elsewhere(Healthy):
    """Has a credential for another endpoint than its own."""

    name = "elsewhere"
    default_origin = "https://other.example.com"


class Silent(Healthy):
    """Does not say what it asks its endpoint."""

    name = "silent"
    contribution = PlanContribution(agent_image="it")


class Guessing(Healthy):
    """Resumes whatever says a version."""

    name = "guessing"

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Accept."""
        return bool(captured and current)


class Greedy(Healthy):
    """Captures all that lies in its directory."""

    name = "greedy"
    capture = CaptureList(
        entries=(CaptureEntry(pattern="threads/*", kind=CaptureKind.WHOLE),),
        conversation_patterns=("threads/{identity}.jsonl",),
    )


class Destructive(Healthy):
    """Deletes what it has just restored."""

    name = "destructive"
    activation = ActivationPlan(delete=("threads/**",), check=("threads/*.jsonl",))


class Forgetful(Healthy):
    """Says that the files of a conversation are some that it does not keep."""

    name = "forgetful"
    capture = CaptureList(
        entries=(CaptureEntry(pattern="threads/*.jsonl", kind=CaptureKind.APPEND_ONLY),),
        conversation_patterns=("sessions/{identity}.jsonl",),
    )


class Engine:
    """An engine that keeps every promise, opened over nothing."""

    api_version = (1, 0)
    name = "engine"
    isolation = Isolation.NONE
    abilities: frozenset[Ability] = frozenset()
    hint = "Install it."

    def open(self, context: EngineContext) -> Self:
        """Return itself."""
        return self

    async def __aenter__(self) -> Self:
        """Open it."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close it."""

    async def probe(self) -> EngineHealth:
        """Find something missing."""
        finding = Finding(subject="it", ok=False, detail="is not there", hint=self.hint)
        return EngineHealth(engine=self.name, usable=False, findings=(finding,))


class Unclassed(Engine):
    """Has an isolation class that is none."""

    name = "unclassed"
    isolation = "strong"  # type: ignore[assignment]


class Boasting(Engine):
    """Claims to freeze, and cannot."""

    name = "boasting"
    abilities = frozenset({Ability.FREEZE})


class Speechless(Engine):
    """Does not say what to do about what is missing."""

    name = "speechless"
    hint = ""
