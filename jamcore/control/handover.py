"""From a daemon of an older release to one of this release: only while the older one is idle, and never from a newer one."""

from __future__ import annotations

from collections.abc import Callable

from jamcore.control.address import read_record
from jamcore.control.client import JamClient
from jamcore.control.ending import UNKNOWN, end, end_within_s, listener
from jamcore.control.failures import (
    ConnectionDroppedError,
    DaemonNewerError,
    DaemonNotRunningError,
    DaemonOlderBusyError,
    DaemonOtherVersionError,
    RemoteRefusalError,
)
from jamcore.control.reach import Reach
from jamcore.control.schemas import DaemonRecord
from jamcore.control.versions import age, jam_version

BUSY = "daemon.busy"
"""The daemon's own refusal to be stopped while it works."""

Say = Callable[[str, str], None]
"""Takes the release that ends and the one that follows it."""


async def hand_over(reach: Reach, say: Say) -> None:
    """End the daemon of an older release, if it is idle; afterwards nobody listens, or somebody else has started another one.

    Args:
        reach: The way that met another release; starts nothing here.
        say: Called once it is certain that the older one is asked to end.

    Raises:
        DaemonNewerError: It is newer.
        DaemonOlderBusyError: It is older, and works or cannot say what it does.
        DaemonOtherVersionError: Which one is older cannot be told.
    """
    record = read_record(reach.directory)
    if record is None:
        return
    require_replaceable(record)
    ours = jam_version()
    any_version = reach.to_any_version()
    if await listener(any_version) is None:
        return
    try:
        activity = (await JamClient(any_version).health()).activity
    except (ConnectionDroppedError, DaemonNotRunningError):
        return  # it is ending already
    if activity is None:
        raise DaemonOlderBusyError(daemon=record.version, client=ours, working=UNKNOWN)
    if not activity.idle:
        raise DaemonOlderBusyError(daemon=record.version, client=ours, working="; ".join(activity.working))
    say(record.version, ours)
    try:
        await end(any_version, within_s=end_within_s(reach.directory, reach.environ), if_idle=True)
    except RemoteRefusalError as error:
        if error.code != BUSY:
            raise
        working = error.context().get("working", "something that began just now")
        raise DaemonOlderBusyError(daemon=record.version, client=ours, working=working) from error


def require_replaceable(record: DaemonRecord) -> None:
    """Accept a daemon that a daemon of this release may follow: an older one, or one of this very release.

    Raises:
        DaemonNewerError: It is newer.
        DaemonOtherVersionError: Which one is older cannot be told.
    """
    ours = jam_version()
    older = age(record.version, ours)
    if older == 1:
        raise DaemonNewerError(daemon=record.version, client=ours)
    if older is None:
        raise DaemonOtherVersionError(daemon=record.version, client=ours)
