"""``jam doctor``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption
from jamcore.cli.text import safe_line
from jamcore.control.failures import AddressUnreadableError, DaemonStartFailedError, DaemonStartTimeoutError
from jamcore.control.unstarted import look
from jamcore.domain.requests import DoctorReport


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Say what this machine can do, and what to do about each gap. Changes nothing.

    Exit status 1 when no engine or no agent's plugin can be used; a missing program or key alone is a gap. While the daemon cannot start,
    what can be seen without it.
    """

    async def work(session: Session) -> Exit:
        with session.output.ticker.during("looking at engines, agents and credentials"):
            report = await _report(session)
        if session.output.json:
            session.output.document(report)
        else:
            for finding in report.findings:
                mark, style = ("ok ", "green") if finding.ok else ("gap", "red")
                session.output.line(f"{mark}  {safe_line(finding.subject)}: {safe_line(finding.detail)}", style)
                if finding.hint and not finding.ok:
                    session.output.line(f"     → {safe_line(finding.hint)}")
        return Exit.OK if report.healthy else Exit.NOT_WELL

    invoke(work, json=json, directory=app_directory)


async def _report(session: Session) -> DoctorReport:
    """Ask the daemon; while it cannot start, say what can be seen without it."""
    try:
        return await session.client().doctor()
    except (DaemonStartFailedError, DaemonStartTimeoutError, AddressUnreadableError) as error:
        return look(session.directory, session.environ, error)
