"""``jam plugin new``: ``python -m jamcore.testing.skeleton NAME [--engine | --policy] [--directory DIR] [--json]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from jamcore.cli.exits import Exit, exit_of
from jamcore.cli.output import Output
from jamcore.domain.errors import JamError
from jamcore.testing.skeleton.making import Kind, make

_NEXT = """\
Made {place}: a plugin that passes Jam's suite as it is, with {inside} inside.

  cd {place}
  pip install -e ".[dev]"
  pytest                  # Jam's suite, on what is there
  jam plugin check .      # the same, as one report

Its README says in which order to make it yours."""

_INSIDE: Mapping[Kind, str] = MappingProxyType(
    {Kind.PROVIDER: "a tiny agent", Kind.ENGINE: "a tiny engine", Kind.POLICY: "a rule for every room"}
)


def main(arguments: list[str] | None = None) -> int:
    """Make the distribution; return the exit status."""
    parser = argparse.ArgumentParser(prog="jam plugin new", description="Make a plugin's distribution that passes Jam's suite.")
    parser.add_argument("name", metavar="NAME")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--engine", action="store_true", help="an engine instead of a provider")
    kinds.add_argument("--policy", action="store_true", help="a policy instead of a provider")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where to make it; default: jam-NAME here")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    chosen = parser.parse_args(arguments)
    output = Output(json=chosen.json, out=sys.stdout, err=sys.stderr)
    kind = Kind.ENGINE if chosen.engine else Kind.POLICY if chosen.policy else Kind.PROVIDER
    try:
        place = make(kind, chosen.name, chosen.directory)
    except JamError as error:
        output.problem(error)
        return exit_of(error)
    except OSError as error:
        output.note(f"jam plugin new: it cannot be written: {error}")
        return Exit.FAULT
    if chosen.json:
        output.document({"name": chosen.name, "kind": kind.value, "directory": str(place)})
    else:
        output.line(_NEXT.format(place=place, inside=_INSIDE[kind]))
    return Exit.OK


if __name__ == "__main__":
    raise SystemExit(main())
