"""What a continuity reset writes to the store, each function in one transaction (CONT-9, CONT-13)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from jamcore.domain.events import SessionNotice, TurnStateChanged
from jamcore.domain.host_native import HostNativeWorkspace
from jamcore.domain.plan import Plan
from jamcore.domain.resets import MEANING, ContinuityReset, ResetRefusedError, SessionReplacement
from jamcore.domain.sessions import (
    Binding,
    HostState,
    RuntimeHost,
    SessionState,
    TurnState,
    WorkspaceState,
)
from jamcore.runtime.provision import ProvisionIntent, begin_provision
from jamcore.sandbox.planning import session_directory
from jamcore.store import Repos
from jamcore.store.repos import Fence

CUT = "its conversation was given up before it was in a checkpoint; the room began afresh"
RESET = "continuity.reset"
"""Code of the notice in every room that began afresh."""


def keep_record(repos: Repos, reset: ContinuityReset) -> None:
    """Keep the record, if the source still has the sessions that it maps; the same again is fine.

    Raises:
        ResetRefusedError: It has others, or is being started afresh already.
    """
    other = repos.continuity_resets.of_source(reset.source_host_id)
    if other is not None and other.id != reset.id:
        raise ResetRefusedError(host=str(reset.source_host_id), problem=f"it is being started afresh already, by {other.id}")
    stored = {session.id for session in repos.sessions.of_host(reset.source_host_id)}
    if stored != {each.source_session_id for each in reset.sessions}:
        raise ResetRefusedError(host=str(reset.source_host_id), problem="the evidence is no longer what was confirmed")
    repos.continuity_resets.insert(reset)


def cut_turns(repos: Repos, reset: ContinuityReset, now: datetime) -> tuple[UUID, ...]:
    """Cut every turn of the source that nobody will settle any more, and return the rooms that were told."""
    told = []
    for each in reset.sessions:
        for turn in repos.turns.unfinished_of(each.source_session_id):
            repos.turns.move(turn.id, TurnState.CUT, detail=CUT, ended_at=now)
            repos.events.append(turn.room_id, turn.id, [TurnStateChanged(state=TurnState.CUT, detail=CUT)])
            told.append(turn.room_id)
    return tuple(told)


def apply_reset(repos: Repos, reset: ContinuityReset, said: Mapping[UUID, str], *, fence: Fence) -> tuple[UUID, ...]:
    """Move every room of the source to its new session and archive the source, all or nothing; return the rooms that were told.

    The archived source is the mark that it was done. It is written before the new host only because an agent has one Shared host (SHARE-1).

    Args:
        repos: The transaction.
        reset: The record.
        said: What each room is told of its files and of the last checkpoint.
        fence: Who owns the new rows.
    """
    source = repos.hosts.get(reset.source_host_id)
    if source.state is HostState.ARCHIVED:
        return ()
    for each in reset.sessions:
        _retire(repos, each)
    if source.state is not HostState.PARKED:
        repos.hosts.move(source.id, HostState.PARKED)  # one that never came up
    repos.hosts.move(source.id, HostState.ARCHIVED)
    plan = Plan.model_validate_json(reset.plan_json)
    repos.hosts.insert(
        RuntimeHost(
            id=reset.host_id,
            agent_id=source.agent_id,
            provider=source.provider,
            engine=plan.engine,
            cell=plan.cell,
            sandbox=plan.name,
            plan_json=reset.plan_json,
            state=HostState.PROVISIONING,
            daemon_id=fence.daemon_id,
            fence_epoch=fence.epoch,
            created_at=reset.created_at,
        )
    )
    for each in reset.sessions:
        _replace(repos, reset, each)
        repos.events.append(
            each.room_id, None, [SessionNotice(code=RESET, detail=_notice(reset, each, said.get(each.room_id, "")))]
        )
    return tuple(each.room_id for each in reset.sessions)


def _retire(repos: Repos, each: SessionReplacement) -> None:
    if repos.sessions.get(each.source_session_id).state is SessionState.LIVE:
        repos.sessions.move(each.source_session_id, SessionState.DORMANT)
    if repos.workspaces.get(each.source_workspace_id).state is WorkspaceState.READY:
        repos.workspaces.move(each.source_workspace_id, WorkspaceState.ARCHIVED)
    native = repos.host_native.of_session(each.source_session_id)
    if native is not None and native.state is WorkspaceState.READY:
        repos.host_native.move(native.id, WorkspaceState.ARCHIVED)
    repos.bindings.release(each.source_binding_id)


def _replace(repos: Repos, reset: ContinuityReset, each: SessionReplacement) -> None:
    old = repos.sessions.get(each.source_session_id)
    workspace = repos.workspaces.get(each.source_workspace_id)
    native = repos.host_native.of_session(each.source_session_id)
    fresh = {"id": each.session_id, "host_id": reset.host_id, "created_at": reset.created_at}
    repos.sessions.insert(old.model_copy(update={**fresh, "state": SessionState.DORMANT, "provider_identity": None}))
    repos.workspaces.insert(
        workspace.model_copy(
            update={
                **fresh,
                "id": each.workspace_id,
                "session_id": each.session_id,
                "guest_path": session_directory(each.session_id),
                "state": WorkspaceState.PROVISIONING,
            }
        )
    )
    if native is not None and each.native_id is not None:
        repos.host_native.insert(
            HostNativeWorkspace(
                id=each.native_id,
                account_id=native.account_id,
                agent_id=native.agent_id,
                session_id=each.session_id,
                state=WorkspaceState.PROVISIONING,
                created_at=reset.created_at,
            )
        )
    repos.bindings.insert(Binding(id=each.binding_id, room_id=each.room_id, session_id=each.session_id, live=True))
    begin_provision(
        repos,
        ProvisionIntent(id=each.operation_id, host_id=reset.host_id, session_id=each.session_id, workspace_id=each.workspace_id),
    )


def _notice(reset: ContinuityReset, each: SessionReplacement, said: str) -> str:
    why = MEANING[reset.evidence.failure] if reset.evidence.failure else "it could not be brought back"
    return (
        f"the conversation begins afresh on a person's word, because {why}; the old one is kept as session {each.source_session_id} in "
        f"{reset.evidence.sandbox}, and this room's history stays readable; {said} (evidence {reset.confirmed})"
    )
