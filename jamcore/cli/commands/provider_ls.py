"""``jam provider ls``."""

from __future__ import annotations

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(json: JsonOption = False, app_directory: DirectoryOption = None) -> None:
    """List the agents that Jam can run, also those whose plugin was not loaded, with the reason."""

    async def work(session: Session) -> Exit:
        providers = await session.client().providers()
        if session.output.json:
            session.output.document(providers)
            return Exit.OK
        session.output.table(
            ("AGENT", "TITLE", "PLUGIN", "STATE", "PROGRAM", "INSTALLED"),
            (
                (each.name, each.title, f"{each.distribution} {each.version}", each.state, each.program_version, each.installed)
                for each in providers
            ),
        )
        for each in providers:
            for problem in each.problems:
                session.output.note(f"{each.name}: {problem}", "red")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
