"""``jam daemon status``."""

from __future__ import annotations

from itertools import pairwise

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.views import moment
from jamcore.control.failures import DaemonNotRunningError
from jamcore.domain.requests import Health
from jamcore.system.clock import SystemClock


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Say whether the daemon runs, and what it is doing. Exit status 5 when it does not run. Starts nothing."""

    async def work(session: Session) -> Exit:
        try:
            health = await session.client(start=False, any_version=True).health()
        except DaemonNotRunningError as error:
            if not session.output.json:
                raise
            session.output.document({"running": False, "app_directory": error.app_directory})
            return Exit.UNREACHABLE
        uptime_s = round((SystemClock().now() - health.started_at).total_seconds(), 1)
        if session.output.json:
            session.output.document({"running": True, "uptime_s": uptime_s, "health": health})
            return Exit.OK
        session.output.pairs(
            (
                ("running", "yes"),
                ("version", health.version),
                ("pid", health.pid),
                ("since", f"{moment(health.started_at)} ({_span(uptime_s)})"),
                ("app directory", health.app_directory),
                *_doing(health),
            )
        )
        return Exit.OK

    invoke(work, json=json, directory=app_directory)


def _doing(health: Health) -> tuple[tuple[str, object], ...]:
    if health.activity is None:
        return (("working", "unknown: this daemon's release does not say"),)
    lines = health.activity.working or ("nothing; it can be stopped without interrupting anything",)
    return ("rooms live", health.activity.live_rooms), *(("working", line) for line in lines)


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    return next((f"{one} {unit} {two} {below}" for (one, unit), (two, below) in pairwise(parts) if one), f"{rest} s")
