"""Work directories of sessions that run as host processes: a record of their own, under a root of their own (WS-14).

A session's seat (:class:`~jamcore.domain.sessions.SessionWorkspace`) says what its room shows; where a Managed directory lies is said by
the kind that made it. A sandboxed session's lies in its host's workspace root. A host-native one's is allocated here, by account, agent
and session, and belongs to no runtime host. Neither kind's allocation, replay or reconciliation reads or changes the other's records.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from jamcore.domain import layout
from jamcore.domain.records import Record
from jamcore.domain.sessions import WorkspaceState


class HostNativeWorkspace(Record):
    """One allocation. ``account_id`` is the installation's own identity: whose agents these are."""

    id: UUID
    account_id: UUID
    agent_id: UUID
    session_id: UUID
    state: WorkspaceState
    created_at: datetime

    @property
    def sessions_path(self) -> str:
        """The directory of all the agent's sessions, relative to the app directory."""
        return layout.host_native_sessions(self.account_id, self.agent_id)
