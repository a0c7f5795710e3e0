"""What must be true of rooms and exports, in the fewest words: whoever asks a daemon for something says here what has become of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from jamcore.domain.kept_exports import ExportState
from jamcore.domain.operations import ExportRetention
from jamcore.domain.sessions import HostState, WorkspaceState

Tree = dict[str, bytes]


@dataclass
class KnownRoom:
    """One room: what its work tree holds, what was said in its conversation, and where it stands.

    ``host`` is its sandbox's state. ``begun``: how many times it began afresh, each time in another workspace.
    """

    name: str
    files: Tree = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    live: bool = False
    workspace: WorkspaceState = WorkspaceState.READY
    host: HostState = HostState.PARKED
    begun: int = 0

    @property
    def archived(self) -> bool:
        """Whether its files are in exports alone."""
        return self.workspace is WorkspaceState.ARCHIVED

    @property
    def removed(self) -> bool:
        """Whether its sandbox was cleaned up."""
        return self.host is HostState.REMOVED

    @property
    def usable(self) -> bool:
        """Whether an agent may work in it."""
        return not self.archived and not self.removed


@dataclass
class KnownExport:
    """One export: what it holds, and of which room it is; ``None`` for one from elsewhere that became none.

    ``begun``: which of the room's workspaces it is of, by how many times the room had begun afresh.
    """

    id: UUID
    room: str | None
    files: Tree
    said: tuple[str, ...]
    state: ExportState = ExportState.PUBLISHED
    elsewhere: bool = False
    begun: int = 0

    @property
    def there(self) -> bool:
        """Whether its payload is."""
        return self.state in (ExportState.PUBLISHED, ExportState.QUARANTINED)


@dataclass
class Model:
    """Everything that is known. The order is that of their making."""

    rooms: dict[str, KnownRoom] = field(default_factory=dict)
    exports: dict[UUID, KnownExport] = field(default_factory=dict)

    def of_room(self, room: KnownRoom) -> list[KnownExport]:
        """Return the exports of a room's files that may be used, oldest first; one from elsewhere holds nothing of what is done here."""
        return self._of_workspace(room.name, room.begun)

    def _of_workspace(self, room: str, begun: int) -> list[KnownExport]:
        mine = (each for each in self.exports.values() if each.room == room and each.begun == begun and not each.elsewhere)
        return [each for each in mine if each.state is ExportState.PUBLISHED]

    # ------------------------------------------------------------------------------------------------------ what may be asked

    def may_archive(self, room: KnownRoom) -> bool:
        """An archive: the files are where they were, and nobody works on them."""
        return room.usable and not room.live

    def may_restore(self, room: KnownRoom, export: KnownExport | None) -> bool:
        """A restore: the files are nowhere else, the host is there, and the export is the room's own."""
        mine = self.of_room(room)
        return room.archived and not room.removed and (export in mine if export else bool(mine))

    def may_clean_up(self, room: KnownRoom) -> bool:
        """A clean-up: all that the room has is in a sound export."""
        return room.host is HostState.PARKED and not room.live and room.archived and bool(self.of_room(room))

    def may_delete(self, export: KnownExport) -> bool:
        """A deletion of an export: it came from elsewhere, or nobody's live files are of it."""
        room = None if export.elsewhere or export.room is None else self.rooms[export.room]
        return export.there and (room is None or room.begun != export.begun or room.archived or room.removed)

    def is_last(self, export: KnownExport) -> bool:
        """Whether files are lost with an export: no later one that may be used is of its workspace."""
        if export.elsewhere or export.room is None:
            return False
        mine = self._of_workspace(export.room, export.begun)
        return mine[-1:] in ([], [export])

    def may_begin_afresh(self, room: KnownRoom) -> bool:
        """A fresh start: nobody is there, and a conversation may be lost."""
        return room.usable and not room.live and bool(room.said)

    def may_adopt(self, export: KnownExport) -> bool:
        """A new room of an export: it came from elsewhere, was confirmed, and became none yet."""
        return export.elsewhere and export.state is ExportState.PUBLISHED and export.room is None

    # ------------------------------------------------------------------------------------------------------- what becomes of it

    def spoken(self, room: KnownRoom, text: str) -> None:
        """A turn was had; what stood against an archive is work that goes on."""
        room.said.append(text)
        room.live, room.host, room.workspace = True, HostState.ACTIVE, WorkspaceState.READY

    def exported(self, identifier: UUID, room: KnownRoom) -> None:
        """There is an export of a room as it is."""
        self.exports[identifier] = KnownExport(identifier, room.name, dict(room.files), tuple(room.said), begun=room.begun)

    def archived(self, identifier: UUID, room: KnownRoom, retention: ExportRetention) -> None:
        """A room's files are in an export alone; with one retention it is the only one that was made here."""
        older = self.of_room(room) if retention is ExportRetention.KEEP_LATEST else []
        for export in older:
            export.state = ExportState.DELETED
        self.exported(identifier, room)
        room.files, room.live, room.workspace = {}, False, WorkspaceState.ARCHIVED

    def restored(self, room: KnownRoom, export: KnownExport | None) -> None:
        """A room's files are those of an export; its conversation is not older than the host's."""
        chosen = export or self.of_room(room)[-1]
        room.files, room.workspace = dict(chosen.files), WorkspaceState.READY

    def taken(self, identifier: UUID, source: KnownExport) -> None:
        """An export from elsewhere is here, and nothing of it is used."""
        self.exports[identifier] = KnownExport(
            identifier, None, dict(source.files), source.said, ExportState.QUARANTINED, elsewhere=True
        )

    def adopted(self, name: str, export: KnownExport) -> None:
        """There is a new room, which goes on where the export's was."""
        self.rooms[name] = KnownRoom(name, dict(export.files), list(export.said))
        export.room = name

    def begun_afresh(self, room: KnownRoom) -> None:
        """A room has its files in another sandbox, and a new conversation; its exports are of the one before.

        What stood against an archive is work that goes on.
        """
        room.begun += 1
        room.said, room.live, room.host, room.workspace = [], True, HostState.ACTIVE, WorkspaceState.READY

    def cut(self) -> None:
        """The daemon has ended: no room is live."""
        for room in self.rooms.values():
            if room.live:
                room.live, room.host = False, HostState.PARKED
