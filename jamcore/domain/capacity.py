"""What takes room on the disk of an app directory, and what might go: figures and advice, on which nothing is ever removed (REAP-3)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from jamcore.domain.records import Record

CANDIDATE_AFTER = timedelta(days=30)
"""What is older may be looked at by a person. Nothing goes by itself."""
MEASURED_ENTRIES = 300_000
"""Files and directories that one report looks at: a second or two, however many hosts there are."""
MEASURED_OF_HOST = 20_000
"""So many of one host at most, so that a large one hides no other."""


class HostUse(Record):
    """What one host takes on the disk, in bytes.

    Attributes:
        guest_disk: Of the sandbox, where its disk is a directory of Jam's; an engine's own disks are not seen.
        exports: Of its rooms, which a clean-up of the host leaves.
        whole: Everything was counted; otherwise the figures are lower bounds.
        checkpoints_that_may_go: How many are older than 30 days, not the newest, and referred to by nothing.
    """

    host_id: UUID
    sandbox: str
    engine: str
    state: str
    rooms: tuple[str, ...]
    guest_disk: int = 0
    workspaces: int = 0
    provider_state: int = 0
    checkpoints: int = 0
    other: int = 0
    exports: int = 0
    whole: bool = True
    checkpoints_that_may_go: int = 0

    @property
    def below_root(self) -> int:
        """What a clean-up of the host would free."""
        return self.guest_disk + self.workspaces + self.provider_state + self.checkpoints + self.other


class ExportUse(Record):
    """An export that is older than 30 days and not the newest of its workspace: advice, and nothing more."""

    id: UUID
    room: str
    bytes_total: int
    age_days: int


class CapacityReport(Record):
    """What all hosts and exports take.

    Attributes:
        hosts: Those that were not removed, the largest first.
        export_bytes: Of all exports that are there, whatever became of their hosts.
        candidates: Exports that a person may want to look at.
        free_bytes: What may still be written where the app directory lies.
    """

    hosts: tuple[HostUse, ...]
    exports: int
    export_bytes: int
    candidates: tuple[ExportUse, ...]
    free_bytes: int

    @property
    def whole(self) -> bool:
        """Everything was counted."""
        return all(host.whole for host in self.hosts)
