"""What is found of a workspace's place on the disk, and what may be done about it (START-3, WS-15)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.records import Record


class ManifestState(StrEnum):
    """What the manifest of a host's directory is: the host's own, not there, not to be read as one, or somebody else's."""

    SOUND = "sound"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    ANOTHERS = "anothers"


class PlaceFound(Record):
    """What lies in the place of a workspace.

    Attributes:
        manifest: What the host's manifest is.
        directory: Whether the session's own directory is there; true where it has none.
    """

    manifest: ManifestState
    directory: bool

    @property
    def sound(self) -> bool:
        """Whether nothing has to be done."""
        return self.manifest is ManifestState.SOUND and self.directory

    @property
    def mends_itself(self) -> bool:
        """Whether everything that is not there can be made again without losing or hiding anything."""
        return self.manifest in (ManifestState.SOUND, ManifestState.MISSING) and self.directory

    def words(self) -> tuple[str, ...]:
        """Return what is wrong, each as a sentence's part; nothing when it is sound."""
        manifest = {
            ManifestState.MISSING: "the host's manifest is gone",
            ManifestState.UNREADABLE: "the host's manifest cannot be read as one",
            ManifestState.ANOTHERS: "the host's manifest names somebody else",
        }.get(self.manifest)
        directory = None if self.directory else "the directory of its files is gone"
        return tuple(words for words in (manifest, directory) if words)


@dataclass(frozen=True, slots=True)
class WorkspacePlace:
    """Where a usable workspace should lie, and whose it is: read for thousands at once, so it is no checked record.

    ``native`` is the directory of the agent's sessions, below the app directory, of a session that runs as host processes (WS-14).
    """

    workspace_id: UUID
    session_id: UUID
    host_id: UUID
    agent_id: UUID
    provider: str
    sandbox: str
    source: str
    created_at: datetime
    native: str | None = None

    @property
    def own(self) -> str | None:
        """The session's own directory, below the app directory; ``None`` where Jam made none."""
        if self.source != WorkspaceSource.MANAGED.value:
            return None
        sessions = self.native or f"{layout.workspace_root(self.host_id)}/sessions"
        return f"{sessions}/{self.session_id}"
