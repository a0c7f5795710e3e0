"""``jam host ls``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List every sandbox of this app directory, and how it stands to what Jam stored and marked. Nothing is changed.

    `healthy`: sandbox, marker and record are one plan. `owner-without-sandbox`: the next use makes it anew. Anything else is for you to
    look at: Jam removes nothing by itself.
    """

    async def work(session: Session) -> Exit:
        report = await session.client().reconcile()
        output = session.output
        if output.json:
            output.document(report)
            return Exit.OK
        output.table(
            ("SANDBOX", "ENGINE", "PRESENCE", "STANDING", "DETAIL"),
            ((row.sandbox, row.engine, row.presence, row.disposition, row.detail or None) for row in report.sandboxes),
        )
        if report.foreign:
            output.note(f"{report.foreign} more belong to somebody else; they are never listed or touched.")
        if report.of_other_daemons:
            output.note(f"{report.of_other_daemons} more are of other daemons on this database, each of which lists its own.")
        for engine in report.unanswered:
            output.note(f"{engine} did not answer: nothing is known of its sandboxes.", "yellow")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
