"""The typed client's part for exports from elsewhere: ``client.imports``."""

from __future__ import annotations

from jamcore.control.approvals import Change, quoted
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest, ImportView
from jamcore.domain.requests import RoomView


class ImportClient:
    """Made by the client, with its own way to the daemon."""

    def __init__(self, change: Change) -> None:
        self._change = change

    async def take(self, request: ImportRequest) -> ImportView:
        """Take an export in; the request's id makes a retry exact, and becomes the export's."""
        return await self._change(ImportView, "POST", "/v1/imports", request, operation=request.id)

    async def inspect(self, ref: str) -> ImportView:
        """Return what there is to confirm of one, which takes as long as it is large."""
        return await self._change(ImportView, "POST", f"/v1/imports/{quoted(ref)}/inspect")

    async def confirm(self, ref: str, request: ConfirmRequest) -> ImportView:
        """Let one be restored; the request confirms its evidence by the digest."""
        return await self._change(ImportView, "POST", f"/v1/imports/{quoted(ref)}/confirm", request)

    async def restore(self, ref: str, request: AdoptRequest) -> RoomView:
        """Make a parked room of a confirmed one; the request's id makes a retry exact."""
        return await self._change(RoomView, "POST", f"/v1/imports/{quoted(ref)}/restore", request, operation=request.id)
