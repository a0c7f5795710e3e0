"""Makes docs/sbx-simulator.md: each behaviour of the simulator with its source. Run ``python -m jamcore.testing.sbx.page``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from jamcore.testing.sbx.bugs import BUGS, FAULTS
from jamcore.testing.sbx.commands import NOT_SIMULATED
from jamcore.testing.sbx.facts_commands import BEHAVIOURS as COMMANDS
from jamcore.testing.sbx.facts_guest import BEHAVIOURS as GUEST
from jamcore.testing.sbx.facts_network import BEHAVIOURS as NETWORK
from jamcore.testing.sbx.known import VERSIONS, Behaviour
from jamcore.testing.sources import workspace_root

PAGE = "docs/sbx-simulator.md"
_HEAD = """\
# The sbx simulator

Made by `python -m jamcore.testing.sbx.page` from the simulator's own tables; do not edit.

`jamcore.testing.sbx` is a program that behaves as the `sbx` CLI of Docker Sandboxes, of the versions {versions}.
Its sandboxes are real: namespaces of bubblewrap with real processes, and no way out but the proxy of its daemon. It is written apart
from the driver: what it prints comes from samples that others published. Whatever no source says is a guess, marked here with what a
person who has the real program has to look at.

    from jamcore.testing.sbx.simulator import Simulator

    with Simulator(tmp_path / "sbx", "0.47", idle_s=2.0) as sbx:
        sbx.run("create", "--name", "one", "shell", str(workspace))
        sbx.run("exec", "one", "true")

`sbx.program` and `sbx.environment` are what a driver is told. Each simulator has state and a daemon of its own, and at the end of the
block nothing of it is left. `configure` changes how it behaves from the next command on, `bug` switches a reported bug on, `fault`
asks for one fault. Many live beside each other ([decision 26](decisions/0026-sbx-simulator.md)).

Where it must stay a simulation: there is no virtual machine, no second user and no sudo in the guest, TLS is carried and not opened,
nothing is pulled, files in YAML may use a small part of YAML only, and the daemon's socket speaks a language of its own. The live test
`sbx-and-its-simulator` ([live tests](live-tests.md)) puts what is marked "probe" to a real program and prints the differences.

The sources are tags: D and M for the documentation, G for its part on governance, RN for the release notes, ISS for a reported issue,
and the others for notes of people who measured.
"""


def render() -> str:
    """Return the page."""
    lines = [_HEAD.format(versions=", ".join(VERSIONS))]
    for title, behaviours in (("Commands", COMMANDS), ("Sandboxes", GUEST), ("Network, secrets and MCP", NETWORK)):
        lines += [f"\n## {title}\n\n| behaviour | versions | source |\n|---|---|---|\n", *_rows(behaviours)]
    lines.append("\n## Guesses\n\nNo source says these. Whoever has the real program: look, and write down what it does.\n\n")
    lines.append("| guess | versions | look at |\n|---|---|---|\n")
    for each in (*COMMANDS, *GUEST, *NETWORK):
        if each.guess:
            lines.append(f"| {_cell(each)} | {_versions(each)} | {_plain(each.look)} |\n")
    lines.append("\n## Bugs that can be switched on\n\n| switch | issue | what is seen |\n|---|---|---|\n")
    lines += [f"| `{bug.ident}` | {bug.issue} | {_plain(bug.text)} |\n" for bug in BUGS.values()]
    lines.append(
        "\n## Faults on demand\n\nBy command, and by how many are let pass first.\n\n| fault | what happens |\n|---|---|\n"
    )
    lines += [f"| `{fault.ident}` | {_plain(fault.text)} |\n" for fault in FAULTS.values()]
    lines.append(
        "\n## Not simulated\n\nThese exist in the real program; here they exit with 1 and say that they are not simulated.\n\n"
    )
    lines += [f"- `{name}`: {_plain(why)}\n" for name, why in NOT_SIMULATED.items()]
    return "".join(lines)


def _rows(behaviours: Iterable[Behaviour]) -> Iterator[str]:
    for each in behaviours:
        if not each.guess:
            yield f"| {_cell(each)} | {_versions(each)} | {', '.join(each.sources)} |\n"


def _cell(each: Behaviour) -> str:
    return f"`{each.ident}`{' (probe)' if each.probe else ''}: {_plain(each.text)}"


def _versions(each: Behaviour) -> str:
    since = f"from 0.{each.since}" if each.since else ""
    until = f"to 0.{each.until}" if each.until is not None else ""
    return " ".join(part for part in (since, until) if part) or "all"


def _plain(text: str) -> str:
    """A bar would end the cell."""
    return text.replace("|", "\\|")


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m jamcore.testing.sbx.page", description=f"Make {PAGE}.").parse_args(arguments)
    (workspace_root(Path.cwd()) / PAGE).write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
