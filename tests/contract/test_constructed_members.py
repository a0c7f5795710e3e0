"""Every state, kind and classification that the domain names is one that production code really makes (WS-15).

A member counts as made where code names it outside its own definition, other than to compare with it, to look it up, to list it in a
set, or to draw an arrow of a transition table. Members that belong to work to come are listed with the guarantee that will need them; what
people, plugins and engines choose is not made by the core, and is listed as a whole. Both lists are strict: what is made leaves them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from jamcore.testing.guarantees import load
from jamcore.testing.sources import Source

ENUMS = frozenset({"Enum", "IntEnum", "StrEnum"})
NOT_MAKING = ("jamcore.testing", "jamcore.store")
"""Doubles are no production; the store keeps what it is given."""
SETS = frozenset({"frozenset", "set", "TransitionTable"})

LATER = MappingProxyType(
    {
        "OnRestart.MARK_INTERRUPTED": "REPO-5",
        "OperationState.CANCELLED": "REPO-2",
        "WorkspaceState.PLANNED": "REPO-8",
    }
)
"""Members that nothing makes yet, and the guarantee whose work will."""

CHOSEN = MappingProxyType(
    {
        "Ability": "an engine states its own",
        "ApprovalPolicy": "a person chooses it for a room",
        "CaptureKind": "a provider declares it",
        "Configuration": "a person chooses it",
        "ExportRetention": "a person chooses it for an archive",
        "GuestPaths": "an engine states its own",
        "Isolation": "an engine states its own",
        "Means": "an engine states by which it holds a limit",
        "RecoveryWay": "a person chooses it for a workspace that something is wrong with",
        "RuleScope": "a person chooses it for a rule",
    }
)
"""Classes whose members come from outside the core: which of them are used here says nothing."""


@pytest.fixture(scope="module")
def members(sources: tuple[Source, ...]) -> dict[str, frozenset[str]]:
    """Every enumeration of the domain with its members."""
    domain = [source for source in sources if source.module.startswith("jamcore.domain.")]
    return {name: found for source in domain for name, found in defined(source.tree())}


@pytest.fixture(scope="module")
def used(sources: tuple[Source, ...], members: dict[str, frozenset[str]]) -> frozenset[str]:
    """Every member that production code makes."""
    making = [source for source in sources if not source.module.startswith(NOT_MAKING)]
    return frozenset(member for source in making for member in made(source.tree(), frozenset(members)))


@pytest.mark.guarantee("WS-15")
def test_every_member_is_made_or_waits_for_a_named_guarantee(members: dict[str, frozenset[str]], used: frozenset[str]) -> None:
    """Vocabulary that nobody uses is removed, or it says what it is for."""
    every = {f"{name}.{member}" for name, found in members.items() if name not in CHOSEN for member in found}
    assert sorted(every - used - LATER.keys()) == []


@pytest.mark.guarantee("WS-15")
def test_what_is_made_waits_no_longer(members: dict[str, frozenset[str]], used: frozenset[str]) -> None:
    """An entry goes on the day its member is made, and with its member."""
    every = {f"{name}.{member}" for name, found in members.items() for member in found}
    assert sorted(LATER.keys() & used) == []
    assert sorted(LATER.keys() - every) == []
    assert {entry for entry in LATER if entry.partition(".")[0] in CHOSEN} == set()


def test_the_guarantees_that_are_waited_for_exist(root: Path) -> None:
    """A wrong id would let a member wait for ever."""
    known = {guarantee.id for guarantee in load(root / "docs" / "guarantees-source.toml")}
    assert set(LATER.values()) - known == set()


def test_every_state_of_a_transition_table_is_looked_at(sources: tuple[Source, ...], members: dict[str, frozenset[str]]) -> None:
    """No machine's states are taken to come from outside, and no table is about something that the scan does not see."""
    domain = [source.tree() for source in sources if source.module.startswith("jamcore.domain.")]
    machines = {name for tree in domain for name in in_tables(tree, frozenset(members))}
    assert {"HostState", "SessionState", "WorkspaceState", "TurnState", "OperationState"} <= machines
    assert machines & CHOSEN.keys() == set()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("move(S.A)", {"S.A"}),
        ("_S = S\nmove(_S.A)", {"S.A"}),
        ("from jamcore.domain.x import S as T\nmove(T.A)", {"S.A"}),
        ("class R:\n    state: S = S.A", {"S.A"}),
        ("x = {'k': S.A}", {"S.A"}),
        ("for x in (S.A, S.B): move(x)", {"S.A", "S.B"}),
        ("x = S.A if y is S.B else S.C", {"S.A", "S.C"}),
        ("if x is S.A or x in (S.B, S.C) or S.D == x: pass", set()),
        ("KEPT = frozenset({S.A}); x = {S.B}", set()),
        ("x = {S.A: 'word'}", set()),
        ("T = TransitionTable('t', {S.A: frozenset({S.B})})", set()),
        ("match x:\n    case S.A: pass", set()),
        ("class S(StrEnum):\n    A = 'a'", set()),
        ("move(other.A)", set()),
    ],
)
def test_the_scan_tells_making_from_looking(code: str, found: set[str]) -> None:
    """The rule above, line by line."""
    assert set(made(ast.parse(code), frozenset({"S"}))) == found


def defined(tree: ast.Module) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each enumeration that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and ENUMS & {base.id for base in node.bases if isinstance(base, ast.Name)}:
            targets = [target for line in node.body if isinstance(line, ast.Assign) for target in line.targets]
            yield node.name, frozenset(target.id for target in targets if isinstance(target, ast.Name))


def made(tree: ast.Module, enums: frozenset[str]) -> Iterator[str]:
    """Yield each ``Enum.MEMBER`` that a module makes."""
    yield from _made(tree, names_of(tree, enums))


def in_tables(tree: ast.Module, enums: frozenset[str]) -> Iterator[str]:
    """Yield the enumerations that a module's transition tables are about."""
    names = names_of(tree, enums)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "TransitionTable":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id in names:
                    yield names[inner.value.id]


def names_of(tree: ast.Module, enums: frozenset[str]) -> dict[str, str]:
    """Return by which names a module knows the enumerations."""
    names = {name: name for name in enums}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname and alias.name in enums}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in names:
            names |= {target.id: names[node.value.id] for target in node.targets if isinstance(target, ast.Name)}
    return names


def _made(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Compare | ast.Set | ast.SetComp | ast.MatchValue):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SETS:
        return
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
        yield f"{names[node.value.id]}.{node.attr}"
    for child in node.values if isinstance(node, ast.Dict) else ast.iter_child_nodes(node):
        yield from _made(child, names)
