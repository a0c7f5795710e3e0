"""Where a session's work tree lies on the host, and Jam's own snapshots of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jamcore.domain import layout
from jamcore.domain.cells import Ability, WorkspaceSource
from jamcore.domain.errors import RefusalError
from jamcore.domain.plan import Plan
from jamcore.domain.sessions import RuntimeHost, SessionWorkspace
from jamcore.engines.port import Engine, HostView
from jamcore.sandbox.places import guest_view
from jamcore.sandbox.planning import session_directory
from jamcore.system.files import Files
from jamcore.workspace.review import ReviewGit, tracked_paths

BASE = "base"
"""Name of the tree that a session began with: every change request is against it."""


@dataclass(eq=False)
class WorkTreeHiddenError(RefusalError):
    """The engine does not show the sandbox's disk, so Jam cannot read the work tree from outside."""

    code: ClassVar[str] = "workspace.hidden"
    hint: ClassVar[str] = "Use an engine with the host-view ability, or push the change from inside the sandbox."

    sandbox: str
    engine: str


@dataclass(frozen=True, slots=True)
class WorkTrees:
    """Finds and reads work trees of one app directory. Stateless."""

    app: Path
    files: Files

    def locate(self, host: RuntimeHost, workspace: SessionWorkspace, engine: Engine) -> Path:
        """Return the work tree's directory on the host.

        Raises:
            WorkTreeHiddenError: It lies on a disk that only the guest sees.
        """
        if workspace.source is WorkspaceSource.MANAGED:
            if Ability.HOST_PATHS not in engine.abilities:
                return self.app / layout.session_workspace(host.id, workspace.session_id)
            view = guest_view(Plan.model_validate_json(host.plan_json), self.app)
            return Path(view.path(session_directory(workspace.session_id)))
        if workspace.source is WorkspaceSource.DIRECT_HOST and workspace.path is not None:
            return Path(workspace.path)
        if Ability.HOST_VIEW in engine.abilities and isinstance(engine, HostView):
            view = guest_view(Plan.model_validate_json(host.plan_json), self.app)
            return engine.host_path(host.sandbox, view.path(workspace.guest_path))
        raise WorkTreeHiddenError(sandbox=host.sandbox, engine=engine.name)

    def review(self, host: RuntimeHost, workspace: SessionWorkspace, engine: Engine) -> ReviewGit:
        """Return Jam's own git view of the work tree."""
        git = self.app / layout.review_repository(host.id, workspace.session_id)
        return ReviewGit(git, self.locate(host, workspace, engine), files=self.files)

    async def keep_base(self, host: RuntimeHost, workspace: SessionWorkspace, engine: Engine) -> None:
        """Remember the tree a session begins with; called before its provider starts for the first time."""
        if (self.app / layout.review_repository(host.id, workspace.session_id) / "refs" / "jam" / BASE).exists():
            return
        review = self.review(host, workspace, engine)
        await review.prepare()
        tracked = await tracked_paths(review.work_tree) if workspace.source is WorkspaceSource.PRIVATE_HOST_CLONE else b""
        await review.keep(BASE, (await review.snapshot(also=tracked)).tree)
