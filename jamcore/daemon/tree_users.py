"""Who works in a session's tree, as far as the daemon and the engine know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jamcore.domain.sandboxes import EngineUnknownError, Presence
from jamcore.sandbox.calls import EngineCalls
from jamcore.workspace.inspection.inspect import TreeUser


@dataclass(frozen=True, slots=True)
class SandboxUsers:
    """Satisfies :class:`~jamcore.workspace.inspection.inspect.TreeUsers` for one sandbox: in one that is stopped nobody works."""

    calls: EngineCalls
    sandbox: str

    async def users(self, tree: Path) -> tuple[TreeUser, ...]:
        """Return nobody for a sandbox that does not run.

        Raises:
            EngineUnknownError: It runs, and nobody can say what its processes have open; or the engine cannot say whether it does.
        """
        del tree
        if await self.calls.presence(self.sandbox) is Presence.RUNNING:
            detail = f"{self.sandbox} runs, and what its processes have open is not known"
            raise EngineUnknownError(engine=self.calls.engine.name, operation="processes", detail=detail)
        return ()
