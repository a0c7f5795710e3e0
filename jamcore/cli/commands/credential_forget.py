"""``jam credential forget``."""

from __future__ import annotations

from typing import Annotated

import typer

from jamcore.cli.exits import Exit
from jamcore.cli.invoke import Session, invoke
from jamcore.cli.options import DirectoryOption, JsonOption


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The credential's name.")],
    json: JsonOption = False,
    app_directory: DirectoryOption = None,
) -> None:
    """Forget a credential that the daemon keeps."""

    async def work(session: Session) -> Exit:
        await session.client().forget_credential(name)
        if session.output.json:
            session.output.document({"forgotten": name})
        else:
            session.output.line(f"{name}: forgotten")
        return Exit.OK

    invoke(work, json=json, directory=app_directory)
