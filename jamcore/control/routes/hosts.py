"""Hosts: all sandboxes of this app directory, and one that lost its proof of ownership, removed on a person's word."""

from __future__ import annotations

from jamcore.control.routes.route import AnyRoute, Call, Route
from jamcore.domain.ownership import Reconciliation
from jamcore.domain.requests import OverrideRequest, OverrideResult, OverrideView


async def reconcile(call: Call) -> Reconciliation:
    """Look at all sandboxes and markers now."""
    return await call.services.inventory.reconcile()


async def inspect_override(call: Call) -> OverrideView:
    """Return the evidence."""
    return await call.services.hosts.inspect_override(call.ref)


async def override(call: Call) -> OverrideResult:
    """Remove what was confirmed."""
    return await call.services.hosts.override(call.ref, call.body(OverrideRequest))


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "GET",
        "/v1/hosts",
        "reconcile_hosts",
        "All sandboxes and markers, and how they stand to the store",
        reconcile,
        Reconciliation,
    ),
    Route(
        "GET",
        "/v1/hosts/{ref}/override",
        "inspect_override",
        "The evidence about a sandbox that may have lost its proof of ownership",
        inspect_override,
        OverrideView,
    ),
    Route(
        "POST",
        "/v1/hosts/{ref}/override",
        "override_host",
        "Remove that sandbox, confirmed by the evidence's digest; its files stay",
        override,
        OverrideResult,
        body=OverrideRequest,
    ),
)
