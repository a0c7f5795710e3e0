"""Variables of Jam's predecessors, from one data file: read where Jam's own settings say nothing (CONF-1)."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple

DATA = "predecessors.toml"


class Found(NamedTuple):
    """A value and the variable that it comes from."""

    value: str
    variable: str


def names() -> Mapping[str, tuple[str, ...]]:
    """Return, for each option that has any, the predecessors' variables, the strongest first."""
    data = tomllib.loads(resources.files("jamcore.control").joinpath(DATA).read_text(encoding="utf-8"))
    return MappingProxyType({option: tuple(variables) for option, variables in data["names"].items()})


def found(environ: Mapping[str, str], said: Collection[str]) -> Mapping[str, Found]:
    """Return what the predecessors' variables say of options that nobody has said anything of. An empty variable says nothing.

    Args:
        environ: The process's environment.
        said: Options that the command line, a variable of Jam's own or the file has.
    """
    chosen = {}
    for option, variables in names().items():
        variable = next((name for name in variables if environ.get(name)), None)
        if variable is not None and option not in said:
            chosen[option] = Found(environ[variable], variable)
    return MappingProxyType(chosen)
