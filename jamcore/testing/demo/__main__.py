"""Run the demo: ``python -m jamcore.testing.demo [--json] [--directory DIR]``. Exit code 0: every proof held; 130: Ctrl-C."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import anyio

from jamcore.domain.errors import JamError
from jamcore.testing.daemon import DaemonChild, DaemonFailedError
from jamcore.testing.demo.report import Report
from jamcore.testing.demo.script import write_play
from jamcore.testing.demo.story import Story
from jamcore.testing.demo.world import DemoFailedError, shell
from jamcore.testing.servers.responses import ResponsesServer

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130


async def run(directory: Path, report: Report) -> int:
    """Run the demo in an empty directory of its own and return the exit code."""
    app = directory / "app"
    play = write_play()
    daemon = DaemonChild(app, environment={"JAM_CREDENTIAL_DEMO": play.secret})
    started = time.monotonic()
    failure = ""
    async with ResponsesServer(play.script(), record=directory / "model-requests.jsonl") as server:
        story = Story(app=app, repository=directory / "repository", play=play, server=server, daemon=daemon, report=report)
        try:
            await story.tell()
        except (DemoFailedError, DaemonFailedError, JamError, TimeoutError) as error:
            failure = f"{type(error).__name__}: {error}"
        finally:
            daemon.stop()
    paths = {
        "directory": directory,
        "repository": directory / "repository",
        "app directory": app,
        "model's record": directory / "model-requests.jsonl",
    }
    commands: tuple[str, ...] = ()
    if story.change is not None:
        paths["change request"] = app / "change-requests" / str(story.change.id)
        commands = (
            shell(app, "change", "show", str(story.change.id)),
            shell(app, "session", "inspect", story.room),
            shell(app, "doctor"),
        )
    report.finish(
        ok=not failure,
        seconds=time.monotonic() - started,
        paths={name: str(path) for name, path in paths.items()},
        commands=commands,
        failure=failure,
    )
    return EXIT_FAILED if failure else EXIT_OK


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="jam demo", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the steps")
    parser.add_argument(
        "--directory", type=Path, help="where to make everything; default: a new temporary directory, which is kept"
    )
    chosen = parser.parse_args()
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="jam-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return anyio.run(run, directory.resolve(), Report(as_json=chosen.json))
    except KeyboardInterrupt:
        print(f"Left; the demo's daemon has ended, and what it made is kept in {directory}", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
