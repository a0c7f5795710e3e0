"""One daemon's view of sandboxes in a test: a real app directory and real proofs over the directory engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jamcore.domain import layout
from jamcore.domain.plan import Plan
from jamcore.domain.sandboxes import SandboxSpec
from jamcore.sandbox.ensure import Ensured, ensure_created
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.records import OwnerRecords
from jamcore.sandbox.specification import spec_of
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles.engines import DirectoryEngine


@dataclass
class World:
    """One daemon's view: app directory, files, engine, proofs."""

    app: Path
    files: Files
    engine: DirectoryEngine
    ownership: Ownership

    @classmethod
    def over(cls, app: Path, engine: DirectoryEngine) -> World:
        """Return a new daemon over an app directory, which is made when it is missing."""
        files = Files()
        files.make_private(app)
        return cls(app, files, engine, Ownership(OwnerRecords(app, files=files), engine))

    def spec(self, plan: Plan) -> SandboxSpec:
        """Return the specification, its directories made."""
        host = plan.owner.stable_id
        for relative in (layout.guest_disk(host), layout.provider_state(host, "good"), f"{layout.workspace_root(host)}/sessions"):
            self.files.make_private(self.app / relative)
        return spec_of(plan, self.app, abilities=self.engine.abilities)

    async def ensure(self, plan: Plan) -> Ensured:
        """Make sure of a plan's sandbox."""
        return await ensure_created(self.ownership, plan, self.spec(plan), ids=SystemIds())

    def guest(self, name: str) -> Path:
        """Return where the guest's home lies on the host."""
        return self.engine.host_path(name, "/home/agent")

    def marker(self, name: str) -> Path:
        """Return the marker's path."""
        return self.app / layout.owner_marker(name)

    def pending(self, name: str) -> Path:
        """Return the path of the record of an unfinished creation."""
        return self.app / layout.pending_cleanup(name)
