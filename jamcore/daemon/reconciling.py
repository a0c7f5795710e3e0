"""The places of workspaces: who makes them and who puts them right, and the step of a start that looks at all (START-1, START-3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jamcore.daemon.journaled import Journaled
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.startup import Problems, each
from jamcore.runtime.feed import RoomFeed
from jamcore.runtime.provision import SessionProvisioner
from jamcore.runtime.reconcile import Reconciler
from jamcore.store import Store
from jamcore.workspace.provision import Provisioner


@dataclass(frozen=True, slots=True)
class Places:
    """Who makes places, and who puts them right; both kinds are registered."""

    provisioner: SessionProvisioner
    reconciler: Reconciler


def places(options: DaemonOptions, store: Store, feed: RoomFeed, journaled: Journaled) -> Places:
    """Build both."""
    layout = Provisioner(options.app, files=options.files)
    runner, ids = journaled.runner, options.ids
    made = Places(
        provisioner=SessionProvisioner(store=store, layout=layout, runner=runner, ids=ids),
        reconciler=Reconciler(
            options.app, files=options.files, store=store, feed=feed, runner=runner, clock=options.clock, ids=ids
        ),
    )
    journaled.actions.register(made.provisioner.action)
    journaled.actions.register(made.reconciler.action)
    return made


async def reconcile_workspaces(replay: Callable[[], Awaitable[Problems]], reconciler: Reconciler) -> Problems:
    """Finish what was begun, and put right the places of workspaces; returns what could not be.

    Args:
        replay: Finishes the operations that had not ended.
        reconciler: Looks at the places.
    """
    begun = await replay()
    found = {place.workspace_id: place for place in await reconciler.unsound()}
    return begun + await each(found, lambda workspace: reconciler.reconcile(found[workspace]))
