"""Requests as people make them: asked, asked again, and something else asked for under the same id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from jamcore.daemon.services import Services
from jamcore.domain.cleanup_plans import CleanupRequest
from jamcore.domain.export_deletions import ExportDeletionRequest
from jamcore.domain.imports import AdoptRequest, ImportRequest
from jamcore.domain.keeping import ArchiveRequest, RestoreRequest, RoomExportRequest
from jamcore.domain.resets import StartFreshRequest
from jamcore.domain.retention import RemovalRequest

Ask = Callable[[Services], Awaitable[object]]
_ELSE = "0" * 64


@dataclass(frozen=True)
class Asked:
    """A request: the same again changes nothing, and something else under its id is refused."""

    id: UUID
    again: Ask
    otherwise: Ask


def export(room: str, request: RoomExportRequest) -> Asked:
    """An export; otherwise one without something."""
    other = request.model_copy(update={"leave_out": ("other",)})
    return Asked(request.id, lambda on: on.exports.new(room, request), lambda on: on.exports.new(room, other))


def archive(room: str, request: ArchiveRequest) -> Asked:
    """An archive; otherwise one whose export lacks something."""
    other = request.model_copy(update={"leave_out": ("other",)})
    return Asked(request.id, lambda on: on.archives.archive(room, request), lambda on: on.archives.archive(room, other))


def restore(room: str, sibling: str, request: RestoreRequest) -> Asked:
    """A restore; otherwise of another room."""
    return Asked(request.id, lambda on: on.restores.restore(room, request), lambda on: on.restores.restore(sibling, request))


def deletion(ref: str, request: ExportDeletionRequest) -> Asked:
    """A deletion of an export; otherwise on other words."""
    other = request.model_copy(update={"lose_workspace": not request.lose_workspace})
    return Asked(request.id, lambda on: on.export_deletions.delete(ref, request), lambda on: on.export_deletions.delete(ref, other))


def clean_up(room: str, request: CleanupRequest) -> Asked:
    """A clean-up of a host; otherwise on other words."""
    other = request.model_copy(update={"discard_work": True})
    return Asked(request.id, lambda on: on.cleanups.clean_up(room, request), lambda on: on.cleanups.clean_up(room, other))


def removal(request: RemovalRequest) -> Asked:
    """A removal of checkpoints; otherwise on other evidence."""
    other = request.model_copy(update={"confirmed": _ELSE})
    return Asked(request.id, lambda on: on.removals.remove(request), lambda on: on.removals.remove(other))


def taking(request: ImportRequest) -> Asked:
    """An import; otherwise from another place."""
    other = request.model_copy(update={"path": f"{request.path}-other"})
    return Asked(request.id, lambda on: on.imports.take(request), lambda on: on.imports.take(other))


def adoption(ref: str, request: AdoptRequest) -> Asked:
    """A room of an export; otherwise under another name."""
    other = request.model_copy(update={"name": f"{request.name}-other"})
    return Asked(request.id, lambda on: on.adoptions.restore(ref, request), lambda on: on.adoptions.restore(ref, other))


def fresh_start(room: str, request: StartFreshRequest) -> Asked:
    """A fresh start; otherwise on other evidence."""
    other = request.model_copy(update={"evidence": _ELSE})
    return Asked(request.id, lambda on: on.continuity.start_fresh(room, request), lambda on: on.continuity.start_fresh(room, other))
