"""``jam export verify``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, ExportArgument, JsonOption
from jamcore.cli.words import size_word


def command(export: ExportArgument, json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """Read an export whole and say whether every name and byte is what it was. Ends with a status of its own when one is not."""

    async def work(session: Session) -> Exit:
        output = session.output
        with output.ticker.during("reading the export"):
            verdict = await session.client().exports.verify(export)
        row = verdict.export
        if output.json:
            output.document(verdict)
        elif verdict.sound:
            output.line(f"Export {row.id} is sound: {row.files} files, {size_word(row.bytes_total)}", "green")
        else:
            output.line(f"Export {row.id} is damaged, in {verdict.total} places:", "red")
            for name in verdict.named:
                output.line(f"  {name}", "red")
            output.note("It is kept as it is, and what is not named is whole. Other exports of the room: jam export ls ROOM")
        return Exit.OK if verdict.sound else Exit.NOT_WELL

    invoke(work, json=json, directory=app_directory)
