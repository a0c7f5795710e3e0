"""``jam plugin check``: ``python -m jamcore.testing.check [PLUGIN] [--json]``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from jamcore.cli.exits import Exit, exit_of
from jamcore.cli.output import Output
from jamcore.cli.text import safe
from jamcore.domain.errors import InvalidInputError, JamError
from jamcore.engines.registry import GROUP as ENGINES
from jamcore.plugins.families import FAMILIES
from jamcore.plugins.manager import POLICIES, PROVIDERS
from jamcore.system.distributions import CORE, by_name, installed
from jamcore.testing.check import report
from jamcore.testing.check.asked import Asked, Installed
from jamcore.testing.check.progress import Progress
from jamcore.testing.policies.subject import Made, least_of
from jamcore.testing.toolchains import TOOLS_VARIABLE, UNPINNED

SUITE = Path(__file__).with_name("suite.py")
QUIET = ("-p", "no:cacheprovider")


def main(arguments: list[str] | None = None) -> int:
    """Run the checks, print the report, and return the exit status."""
    parser = argparse.ArgumentParser(prog="jam plugin check", description="Check plugins against Jam's suite.")
    parser.add_argument("plugin", metavar="PLUGIN", nargs="?", help="a distribution, or a source directory; default: all installed")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    chosen = parser.parse_args(arguments)
    output = Output(json=chosen.json, out=sys.stdout, err=sys.stderr)
    try:
        recorder, status, log = check(chosen.plugin, progress := Progress(sys.stderr))
    except JamError as error:
        output.problem(error)
        return exit_of(error)
    progress.over()
    if recorder.subject and os.environ.get(TOOLS_VARIABLE):
        output.note(UNPINNED)
    if chosen.json:
        output.document(report.as_document(recorder.findings.values(), recorder.outside))
    else:
        for line in report.as_text(recorder.findings.values(), recorder.outside):
            output.line(line)
    if status == pytest.ExitCode.INTERRUPTED and not recorder.outside:
        return Exit.INTERRUPTED
    if status in {pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED}:
        output.note(safe(log[-4000:]))
        return Exit.FAULT
    return Exit.NOT_WELL if status != pytest.ExitCode.OK else Exit.OK


def check(plugin: str | None, progress: Progress | None = None) -> tuple[report.Recorder, int, str]:
    """Run the checks of a source directory, of an installed distribution, or of all.

    Args:
        plugin: The directory or the distribution; ``None``: all that is installed.
        progress: Told of each check as it finishes.

    Returns:
        What was found, the status of pytest, and what pytest printed.

    Raises:
        InvalidInputError: There is no such distribution, it has no such plugin, or the directory has no tests.
    """
    if plugin is not None and (plugin in {".", ".."} or "/" in plugin):
        return _of_directory(Path(plugin).absolute(), progress)
    recorder = report.Recorder(progress=progress)
    families = tuple(_installed(FAMILIES, plugin))
    asked = Asked(
        providers=(*_installed(PROVIDERS, plugin), *_made_by(families)),
        engines=tuple(_installed(ENGINES, plugin)),
        policies=tuple(_installed(POLICIES, plugin)),
        families=families,
    )
    if not any(asked.kinds().values()):
        whose = "is installed" if plugin is None else f"is in an installed distribution called {plugin[:80]!r}"
        raise InvalidInputError(
            field="plugin",
            problem=f"no provider's or engine's plugin, policy or family {whose}; a source directory is named with a slash",
        )
    settings = ("-c", os.devnull, f"--rootdir={SUITE.parent}", "--import-mode=importlib", "-o", "anyio_mode=auto")
    return recorder, *_run(recorder, asked, *settings, str(SUITE))


def _of_directory(directory: Path, progress: Progress | None) -> tuple[report.Recorder, int, str]:
    if not (directory / "tests").is_dir():
        raise InvalidInputError(field="plugin", problem=f"{directory} has no tests: subclass Jam's suite there")
    recorder = report.Recorder(subject=directory.name, progress=progress)
    with chdir(directory):
        return recorder, *_run(recorder, f"--rootdir={directory}", "tests")


def _installed(group: str, distribution: str | None) -> Iterable[Installed]:
    for found in (each for same in by_name(installed((group,))).values() for each in same):
        name = canonicalize_name(found.distribution)
        if name == CORE if distribution is None else name != canonicalize_name(distribution):
            continue
        yield Installed(found)


def _made_by(families: Iterable[Installed]) -> Iterable[Made]:
    """Yield a provider of each family. One that makes none promises nothing as a provider; what it broke is a promise of the family."""
    for family in families:
        made = least_of(family)
        try:
            made.plugin()
        except (Exception, SystemExit):  # noqa: BLE001, S112 - isolation: an author's mistake ends here
            continue
        yield made


def _run(recorder: report.Recorder, *more: object) -> tuple[int, str]:
    plugins = [recorder, *(each for each in more if not isinstance(each, str))]
    log = io.StringIO()
    with redirect_stdout(log), redirect_stderr(log):
        status = pytest.main([*QUIET, *(each for each in more if isinstance(each, str))], plugins=plugins)
    return int(status), log.getvalue()


if __name__ == "__main__":
    raise SystemExit(main())
