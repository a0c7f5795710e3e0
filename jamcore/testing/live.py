"""The registry of live tests: those that need a physical host, a real account or an engine that not every machine has (LIVE-1).

Each distribution lists its own in a file ``live.toml`` that lies beside them, or above; all these files together are the one list::

    distribution = "jam-example"

    [[live]]
    name = "a-turn-and-exact-resume"
    test = "test_live_example.py::test_a_turn_and_exact_resume_with_the_real_account"
    opt_in = "JAM_LIVE_EXAMPLE"
    program = "the pinned program"
    account = "EXAMPLE_API_KEY"
    proves = "a turn that changes a file, and after a kill the exact conversation"
    ran = "never; played against a scripted model"

A live test that is in no list fails wherever it is met, whichever switches are set, and :func:`problems` finds it without running anything.
The text of ``ran`` says when and where it last ran for real.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from pydantic import Field, ValidationError

from jamcore.domain.records import Record

LIST = "live.toml"
MARK = "live"
SWITCH = "JAM_LIVE_PHYSICAL_HOST"
"""The machine's switch. A test's own is the argument of its mark; neither alone runs it."""
ENDPOINT = "JAM_LIVE_ENDPOINT"
"""An origin that stands in for the real endpoint. What runs against it says nothing about a real account, and the run says so."""

TEST_FILES = ("tests/**/*.py", "plugins/*/tests/**/*.py")
_ACCOUNT = re.compile(r"JAM_LIVE_\w+|\w*(API_KEY|_TOKEN|_SECRET)\Z")
_WORTH_A_LOOK = re.compile(rb"\blive\b|environ|getenv|\.home\(|expanduser")
_READERS = frozenset({"get", "getenv", "pop", "__getitem__"})


class LiveTest(Record):
    """One entry of the registry.

    ``test`` is its node id relative to the list that holds it. ``needs`` are the names of its ``needs`` marks. ``gate`` is the name of the
    decisive gate that it is, if it is one. ``program`` and ``account`` are for a person to read: what must be on the machine, and which
    credentials.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{2,79}$")
    test: str = Field(pattern=r"^[\w./-]+\.py::[\w:]+$")
    opt_in: str = Field(pattern=r"^JAM_LIVE_[A-Z0-9_]+$")
    needs: tuple[str, ...] = ()
    gate: str = ""
    provider: str = ""
    program: str = Field(min_length=1)
    account: str = Field(min_length=1)
    proves: str = Field(min_length=1)
    ran: str = Field(min_length=1)
    distribution: str
    at: str
    """The list's directory, relative to the workspace or to the directory of a run."""

    @property
    def nodeid(self) -> str:
        """The test's node id relative to where :attr:`at` is relative to."""
        return str(PurePosixPath(self.at) / self.test)


class BadListError(Exception):
    """A list of live tests cannot be used; the text says which and why, in one line."""


def read(path: Path, root: Path) -> tuple[LiveTest, ...]:
    """Read one list.

    Args:
        path: The file.
        root: What node ids are to be relative to.

    Raises:
        BadListError: It is no such list.
    """
    name = _relative(path, root)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        distribution, entries = table.pop("distribution"), table.pop("live")
        if table:
            raise BadListError(f"{name}: nothing is called {', '.join(sorted(table))}")
        common = {"distribution": distribution, "at": str(PurePosixPath(name).parent)}
        return tuple(LiveTest.model_validate({**_tuples(entry), **common}) for entry in entries)
    except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError, ValidationError) as error:
        said = str(error).replace("\n", "; ")
        raise BadListError(f"{name}: {said}") from error


def registry(root: Path) -> tuple[LiveTest, ...]:
    """Return the one list: what every distribution of the workspace registered, in the order of their files.

    Raises:
        BadListError: A list cannot be read, or two entries have one name.
    """
    places = {path.parent for pattern in TEST_FILES for path in root.glob(pattern.replace("*.py", LIST))}
    found = tuple(entry for place in sorted(places) for entry in read(place / LIST, root))
    names = [f"{entry.distribution}: {entry.name}" for entry in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadListError(f"registered twice: {', '.join(twice)}")
    return found


def registered(path: Path, nodeid: str, root: Path) -> LiveTest | None:
    """Return the entry of a test in the list that lies beside its file or above it, at most at ``root``; ``None``: it is in none.

    Raises:
        BadListError: The list cannot be read.
    """
    inside = nodeid.partition("::")[2].partition("[")[0]
    for place in path.parents:
        if (place / LIST).is_file():
            wanted = f"{path.relative_to(place).as_posix()}::{inside}"
            return next((entry for entry in read(place / LIST, root) if entry.test == wanted), None)
        if place == root:
            break
    return None


# ---------------------------------------------------------------------------------------------------- finding unregistered ones


@dataclass(frozen=True, slots=True)
class Marked:
    """A test function with its live marks' switches and its needs, as they stand in the source."""

    nodeid: str
    switches: tuple[str, ...]
    needs: tuple[str, ...]
    guarantees: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What one file holds: its tests, where its text has a live mark, and which variables of live tests or of accounts it reads."""

    name: str
    tests: tuple[Marked, ...]
    marks: int
    reads: tuple[str, ...]


def problems(root: Path) -> tuple[str, ...]:
    """Return every way in which the tests of a workspace and the registry disagree, one line each; it runs and imports nothing.

    Raises:
        BadListError: A list cannot be read.
    """
    entries = {entry.nodeid: entry for entry in registry(root)}
    near = {PurePosixPath(entry.nodeid.partition("::")[0]).parent for entry in entries.values()}
    paths = [path for pattern in TEST_FILES for path in sorted(root.glob(pattern))]
    # Most other files have nothing to do with it, and a parse of each takes seconds.
    seen = tuple(see(path, root) for path in paths if _near(path, root, near) or _WORTH_A_LOOK.search(path.read_bytes()))
    tests = {test.nodeid: test for file in seen for test in file.tests}
    homes = {str(PurePosixPath(entry.nodeid.partition("::")[0]).parent) for entry in entries.values() if _whole(entry, seen)}
    found = [f"{nodeid}: registered, and no such test" for nodeid in entries if nodeid not in tests]
    for nodeid, test in tests.items():
        found.extend(_disagreements(test, entries.get(nodeid)))
    for file in seen:
        found.extend(_reads_without(file, entries, homes))
    return tuple(sorted(found))


def see(path: Path, root: Path) -> Seen:
    """Look at one file of tests."""
    name = _relative(path, root)
    tree = ast.parse(path.read_bytes(), filename=name)
    names = _constants(tree)
    inherited = [value for node in tree.body if _assigns(node, "pytestmark") for value in _elements(node)]
    marks = sum(_is_live(node) for node in ast.walk(tree))
    # A program of its own has the environment that its test gave it.
    reads = () if _is_program(tree) else sorted(set(_reads(tree, names)))
    return Seen(name, tuple(_tests_in(tree, name, inherited, names)), marks, tuple(reads))


def _near(path: Path, root: Path, places: set[PurePosixPath]) -> bool:
    return PurePosixPath(_relative(path, root)).parent in places


def _disagreements(test: Marked, entry: LiveTest | None) -> Iterator[str]:
    if entry is None:
        if test.switches:
            yield f"{test.nodeid}: a live test, and in no {LIST}"
        return
    if test.switches != (entry.opt_in,):
        yield f"{test.nodeid}: its mark says {', '.join(test.switches) or 'nothing'}, its entry {entry.opt_in}"
    if entry.opt_in == SWITCH:
        yield f"{test.nodeid}: its own switch is the machine's, so that one alone would run it"
    if sorted(test.needs) != sorted(entry.needs):
        yield f"{test.nodeid}: it needs {', '.join(test.needs) or 'nothing'}, its entry says {', '.join(entry.needs) or 'nothing'}"
    if test.guarantees:
        yield f"{test.nodeid}: carries {', '.join(test.guarantees)}; what most machines skip would keep them from being proven"


def _reads_without(file: Seen, entries: Mapping[str, LiveTest], homes: Iterable[str]) -> Iterator[str]:
    """Say what a file with a live mark or with reads of a live test's variables lacks."""
    live = [test for test in file.tests if test.nodeid in entries]
    if file.marks and not any(test.switches for test in file.tests):
        yield f"{file.name}: a live mark that belongs to no test function"
    if not file.reads or str(PurePosixPath(file.name).parent) in homes:
        return
    if missing := [test.nodeid for test in file.tests if test.nodeid not in entries]:
        yield f"{missing[0]}: its file reads {', '.join(file.reads)}, and it is in no {LIST}"
    elif not live:
        yield f"{file.name}: reads {', '.join(file.reads)}, and lies in no directory of live tests alone"


def _whole(entry: LiveTest, seen: Iterable[Seen]) -> bool:
    """Whether all tests in the directory of a live test are live, so that what lies beside them serves no others."""
    home = PurePosixPath(entry.nodeid.partition("::")[0]).parent
    return all(test.switches for file in seen if PurePosixPath(file.name).parent == home for test in file.tests)


def _tests_in(node: ast.Module | ast.ClassDef, prefix: str, marks: list[ast.expr], names: Mapping[str, str]) -> Iterator[Marked]:
    for child in node.body:
        if isinstance(child, ast.ClassDef) and child.name.startswith("Test"):
            own = [value for inner in child.body if _assigns(inner, "pytestmark") for value in _elements(inner)]
            yield from _tests_in(child, f"{prefix}::{child.name}", [*marks, *child.decorator_list, *own], names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test"):
            every = [*marks, *child.decorator_list]
            said = [_said(every, mark, names) for mark in (MARK, "needs", "guarantee")]
            yield Marked(f"{prefix}::{child.name}", *said)


def _said(marks: Iterable[ast.expr], mark: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments of every mark of one name among the expressions, also inside parameters; a mark without any says ``""``."""
    found: list[str] = []
    for expression in marks:
        calls = {id(node.func): node for node in ast.walk(expression) if isinstance(node, ast.Call)}
        for node in ast.walk(expression):
            if _is_mark(node, mark):
                call = calls.get(id(node))
                found.extend([_text(argument, names) for argument in call.args] if call is not None and call.args else [""])
    return tuple(dict.fromkeys(found))


def _is_mark(node: ast.AST, mark: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == mark
        and isinstance(node.value, ast.Attribute | ast.Name)
        and (node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id) == "mark"
    )


def _is_live(node: ast.AST) -> bool:
    return _is_mark(node, MARK)


def _reads(tree: ast.Module, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables of live tests and accounts that are read from the environment, and "a home" where a person's own is looked up."""
    for node in ast.walk(tree):
        if _looks_up_a_home(node):
            yield "a home"  # where the logins of agents' programs lie
        if isinstance(node, ast.Subscript) and _is_environment(node.value) and isinstance(node.ctx, ast.Load):
            looked = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READERS and node.args:
            looked = [node.args[0]] if _is_environment(node.func.value) or node.func.attr == "getenv" else []
        elif isinstance(node, ast.Compare) and any(map(_is_environment, node.comparators)):
            looked = [node.left]
        else:
            continue
        yield from (text for text in (_text(each, names) for each in looked) if _ACCOUNT.match(text))


def _looks_up_a_home(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and (
        node.attr == "expanduser" or (node.attr == "home" and isinstance(node.value, ast.Name) and node.value.id == "Path")
    )


def _is_program(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.If) and "__main__" in ast.dump(node.test) for node in tree.body)


def _is_environment(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (isinstance(node, ast.Name) and node.id == "environ")


def _constants(tree: ast.Module) -> Mapping[str, str]:
    """Return the texts that the module gives a name."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})
    return MappingProxyType(found)


def _text(node: ast.expr, names: Mapping[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _elements(node: ast.stmt) -> list[ast.expr]:
    assert isinstance(node, ast.Assign)
    return node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]


def _tuples(entry: Mapping[str, object]) -> dict[str, object]:
    """TOML has lists where a record has tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
