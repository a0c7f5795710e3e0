"""Makes docs/operations.md: every journaled kind of a whole daemon (START-6). Run ``python -m jamcore.testing.operations_page``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from jamcore.daemon.compose import composed
from jamcore.daemon.operations import Operations
from jamcore.daemon.options import DaemonOptions
from jamcore.journal.declaration import Declaration
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.steps import Action
from jamcore.testing.not_needed import all_plugins_but
from jamcore.testing.sources import workspace_root

PAGE = "docs/operations.md"
_HEAD = """\
# Operations

Made by `python -m jamcore.testing.operations_page` from the kinds of a whole daemon; do not edit. `jam operation ls` lists what was begun,
`jam operation show` tells it step by step.

Every kind keeps its intent before it acts, and each step says what a restart does with it when it was begun and not recorded: *replay* does
it again, *observe-then-finish* asks the world first, *mark-interrupted* ends the operation. What a kind takes away is confirmed by the
digest of evidence that names the kind, so that no confirmation fits another. A kind that leaves any of this out cannot be registered.
"""


async def registered() -> ActionRegistry:
    """Return the kinds of a whole daemon, which lives for a moment in a directory of its own."""
    with TemporaryDirectory(prefix="jam-") as directory:
        app = Path(directory) / "app"
        app.mkdir(mode=0o700)
        options = DaemonOptions(
            app=app,
            runtime=Path(directory) / "run",
            version="1",
            pid=os.getpid(),
            environment={"HOME": directory, "PATH": os.defpath},
            blocked_plugins=all_plugins_but("local"),  # none of them adds a kind
        )
        async with composed(options) as services:
            operations = services.operations
            assert isinstance(operations, Operations)
            return operations.actions


def render(actions: ActionRegistry) -> str:
    """Return the page."""
    return _HEAD + "".join(_section(actions.action(kind)) for kind in actions.kinds())


def _section(action: Action[Any]) -> str:
    declared = _declared(action)
    confirmed = f"the digest of `{declared.confirms.__name__}`" if declared.confirms else "none: it takes nothing away"
    ends = ", ".join(f"`{error.code}`" for error in action.hopeless)
    lines = [
        f"\n## {action.kind}\n",
        f"The {declared.title}.\n",
        "| | |",
        "|---|---|",
        f"| intent | `{action.record.__name__}` |",
        f"| looks at | {declared.evidence} |",
        f"| confirmation | {confirmed} |",
        f"| a start goes on with it in | {declared.replay} |",
        f"| nothing is removed before | {action.commits_at or 'its first step'} |" if action.commits_at else "",
        f"| ends with | {ends} |" if ends else "",
        "\n| step | after a restart | what stays when it fails there for good |",
        "|---|---|---|",
        *(f"| {step.name} | {step.on_restart} | {step.leaves or 'it is tried again'} |" for step in action.steps),
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _declared(action: Action[Any]) -> Declaration:
    assert action.declares is not None
    return action.declares


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.operations_page", description="Make docs/operations.md.")
    parser.parse_args(arguments)
    (workspace_root(Path.cwd()) / PAGE).write_text(render(anyio.run(registered)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
