"""Plans: the exact creation intent of a sandbox, and the one constructor's inputs (PLAN)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from jamcore.domain.cells import Ability, Cell
from jamcore.domain.errors import RefusalError
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import Access, Isolation, Resources

PLAN_SCHEMA = 1

WORK_ROOT = "/jam/work"
STATE_ROOT = "/jam/state"
TOOLS_ROOT = "/jam/tools"
GUEST_HOME = "/home/agent"
RELAY_PORT = 8790
"""Guest loopback port on which the model endpoint answers; fixed so that no plan changes with a host port (SEC-4)."""

RELAY_URL = f"http://127.0.0.1:{RELAY_PORT}"
"""How a guest with a loopback of its own reaches its model endpoint."""

_GUEST_PATH = re.compile(r"(/[A-Za-z0-9._@+-]+)+\Z")


class RuntimeHostOwner(Record):
    """The canonical owner, and the only one of a Shared host (PLAN-2)."""

    kind: Literal["runtime-host"] = "runtime-host"
    agent_id: UUID
    host_id: UUID

    @property
    def stable_id(self) -> UUID:
        """The UUID that enters the sandbox name."""
        return self.host_id


class RuntimeSessionOwner(Record):
    """The compatibility owner of an older Dedicated host (PLAN-2)."""

    kind: Literal["runtime-session"] = "runtime-session"
    agent_id: UUID
    session_id: UUID

    @property
    def stable_id(self) -> UUID:
        """The UUID that enters the sandbox name."""
        return self.session_id


Owner = Annotated[RuntimeHostOwner | RuntimeSessionOwner, Field(discriminator="kind")]


class AppPath(Record):
    """A path below the app directory, relative to it: moving the app directory changes no plan (PLAN-4)."""

    kind: Literal["app"] = "app"
    path: str


class HostPath(Record):
    """An absolute path that a person named: a clone source, a direct path or a reference folder."""

    kind: Literal["host"] = "host"
    path: str


Source = Annotated[AppPath | HostPath, Field(discriminator="kind")]


class MountRole(StrEnum):
    """What a mount is for; decides who may own and change it."""

    WORKSPACE = "workspace"
    PROVIDER_STATE = "provider-state"
    TOOLCHAIN = "toolchain"
    REFERENCE = "reference"
    EXTRA = "extra"


class PlanMount(Record):
    """One directory of the host in the guest."""

    role: MountRole
    source: Source
    guest_path: str
    access: Access


class ClonePlan(Record):
    """A private clone: made by the engine, from this primary checkout at this commit (CAP-7)."""

    source: HostPath
    commit: str
    guest_path: str


class GuestPaths(StrEnum):
    """Where the guest sees what the plan puts at guest paths (PLAN-4): the mapping of an engine that forces host paths."""

    FIXED = "fixed"
    """Exactly there: the engine chooses guest paths."""
    HOST_MOUNTS = "host-mounts"
    """Each host directory at its host path; the home at its own place."""
    HOST = "host"
    """Each host directory, and the home too, at its host path."""

    @classmethod
    def of(cls, abilities: frozenset[Ability]) -> GuestPaths:
        """Return what an engine with these abilities shows."""
        if Ability.HOST_PATHS not in abilities:
            return cls.FIXED
        return cls.HOST if Ability.HOST_HOME in abilities else cls.HOST_MOUNTS


class ModelEndpoint(Record):
    """The only address a guest reaches: requests to the relay go to this origin and to these paths (SEC-4).

    ``origin`` is ``scheme://host[:port]``; ``paths`` are exact ``METHOD /path`` pairs, each with its exact query where it has one.
    ``credential`` names a secret of the daemon that the relay adds outside the guest; ``None`` adds nothing. The secret's value is in
    no plan.
    """

    origin: str
    paths: tuple[str, ...]
    credential: str | None = None


class Toolchain(Record):
    """A pinned provider program, installed under the app directory and mounted read-only."""

    provider: str
    version: str
    digest: str


class McpServer(Record):
    """A static MCP server registration."""

    name: str
    digest: str


class Plan(Record):
    """The exact creation intent (PLAN-1). Two plans are the same when their canonical JSON is the same."""

    schema_version: Literal[1] = 1
    owner: Owner
    name: str
    provider: str
    engine: str
    minimum_isolation: Isolation
    agent_image: str
    cell: Cell
    primary: PlanMount | ClonePlan
    mounts: tuple[PlanMount, ...]
    kits: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    environment_files: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...]
    resources: Resources = Resources()
    endpoint: ModelEndpoint | None = None
    toolchain: Toolchain | None = None
    paths: GuestPaths = GuestPaths.FIXED

    @model_serializer(mode="wrap")
    def _as_it_was_stored(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what came after the first plans were stored, where it is not used: their canonical form never changes."""
        data: dict[str, object] = handler(self)
        if self.paths is GuestPaths.FIXED:
            del data["paths"]
        return data

    @property
    def clone(self) -> bool:
        """Whether the primary workspace is an engine-made private clone."""
        return isinstance(self.primary, ClonePlan)


class PlanContext(Record):
    """What the plugin is told when it contributes: the legal cell, guest paths, its toolchain's place. No identity of anything (PLUG-3)."""

    cell: Cell
    state_root: str
    tools_root: str
    home: str
    relay_url: str
    abilities: frozenset[Ability]


class ExtraMount(Record):
    """A further directory of the provider's state, made by the core below the host's provider-state root."""

    subdirectory: str
    guest_path: str
    access: Access


class PlanContribution(Record):
    """The provider's part of a plan (PLAN-5): never a name, an owner or a host path.

    ``state_subdirectories`` are made below the provider's state root before the sandbox exists (PREP-3).
    ``guest_directories`` are made on the guest disk, below the home. ``endpoint_paths`` are the ``METHOD /path`` pairs
    the provider uses; one that always asks with a query names that too: ``POST /v1/messages?beta=true``. ``denied_hosts`` are names of
    hosts, in lower case, on which no room's endpoint may be, nor below them, whoever names it: what a policy adds. A host is known by the
    name that the endpoint has; what else leads there is not looked up.
    """

    agent_image: str
    kits: tuple[str, ...] = ()
    state_subdirectories: tuple[str, ...] = ()
    guest_directories: tuple[str, ...] = ()
    extra_mounts: tuple[ExtraMount, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    endpoint_paths: tuple[str, ...] = ()
    denied_hosts: tuple[str, ...] = ()


@dataclass(eq=False)
class PlanRefusedError(RefusalError):
    """The request cannot become a plan (PLAN-5, CAP-7)."""

    code: ClassVar[str] = "plan.refused"
    hint: ClassVar[str] = "Change the named part of the request."

    part: str
    problem: str


@dataclass(eq=False)
class PlanNameMismatchError(RefusalError):
    """The plan's derived name is not the one the host was stored with: nothing was asked of the engine (PLAN-6)."""

    code: ClassVar[str] = "plan.name_mismatch"
    hint: ClassVar[str] = "The host's record and the plan disagree; inspect both with `jam session inspect`."

    planned: str
    stored: str


def guest_path(text: str) -> str:
    """Accept an absolute guest path of plain segments, without ``..``.

    Raises:
        PlanRefusedError: Anything else.
    """
    if len(text) > 512 or not _GUEST_PATH.match(text) or ".." in text.split("/"):
        raise PlanRefusedError(part="guest path", problem=f"{text[:80]!r} is not a plain absolute path")
    return text
