"""Importing Jam does nothing: no thread, socket, child or open file, no state shared by a whole process."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from jamcore.testing.sources import Source

# Runs in a fresh interpreter: imports every module and says what is there that was not there before.
PROBE = """
import importlib, json, os, sys, threading
modules = json.load(sys.stdin)
failed, noisy = {}, {}
def observe():
    descriptors = [n for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]
    threads = [t.name for t in threading.enumerate()]
    return {"descriptors": descriptors, "threads": threads, "environment": dict(os.environ), "directory": os.getcwd()}
before = observe()
for name in modules:
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed[name] = repr(error)
    after = observe()
    if after != before:
        noisy[name] = [key for key in after if after[key] != before[key]]
        before = after
try:
    os.waitpid(-1, os.WNOHANG)
    noisy["?"] = ["children"]
except ChildProcessError:
    pass
json.dump({"failed": failed, "noisy": noisy}, sys.stdout)
"""
MUTABLE_CALLS = frozenset(
    {"list", "dict", "set", "defaultdict", "OrderedDict", "Counter", "deque", "bytearray", "WeakValueDictionary"}
)
READ_ONLY = frozenset({"Mapping", "Sequence", "Set", "Collection"})
DECLARATIONS = frozenset({"__all__", "down_revision", "branch_labels", "depends_on"})


def test_importing_everything_changes_nothing(sources: tuple[Source, ...]) -> None:
    """Every module imports in a fresh interpreter and leaves no thread, descriptor, child or changed environment."""
    installed = {package for package in {source.package for source in sources} if find_spec(package)}
    names = [source.module for source in sources if source.is_importable and source.package in installed]
    done = subprocess.run([sys.executable, "-c", PROBE], input=json.dumps(names), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"failed": {}, "noisy": {}}


def test_no_module_holds_mutable_state(sources: tuple[Source, ...]) -> None:
    """No module-level list, dict or set, and no ``global``: two daemons in one process share nothing.

    A table in capitals is fine when its annotation is a read-only type, because then the type checker keeps it constant.
    """
    assert [line for source in sources for line in violations(source.tree(), source.name)] == []


@pytest.mark.parametrize(
    "code",
    [
        "cache = {}",
        "TABLE = {1: 2}",
        "cache: Mapping[int, int] = {}",
        "TABLE: dict[int, int] = {}",
        "cache: dict[str, int] = dict()",
        "A = B = [1]",
        "names = {n for n in 'ab'}",
        "from collections import defaultdict\nx = defaultdict(list)",
        "if True:\n    x = []",
        "class A:\n    shared = []",
        "def f():\n    global x\n    x = 1",
    ],
)
def test_the_scan_sees(code: str) -> None:
    """The scan above finds each form of shared state."""
    assert list(violations(ast.parse(code), "x.py"))


@pytest.mark.parametrize(
    "code",
    [
        "__all__ = ['a']",
        "A = frozenset({1})",
        "A = MappingProxyType({1: 2})",
        "_TABLE: Mapping[int, int] = {1: 2}",
        "A: Final[Sequence[int]] = [1]",
        "def f():\n    x = []",
        "A = (1, 2)",
    ],
)
def test_the_scan_allows(code: str) -> None:
    """Constants and locals are no shared state."""
    assert not list(violations(ast.parse(code), "x.py"))


def violations(tree: ast.Module, name: str) -> Iterator[str]:
    """Yield each mutable module or class attribute and each ``global``."""
    yield from (f"{name}:{node.lineno} global" for node in ast.walk(tree) if isinstance(node, ast.Global))
    for statement in _executed_on_import(tree.body):
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None and _is_mutable(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            if not names <= DECLARATIONS and not _is_read_only_constant(statement):
                yield f"{name}:{statement.lineno} {', '.join(sorted(names))}"


def _executed_on_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module and of its classes and branches, but of no function."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _executed_on_import(getattr(statement, field, []))


def _is_read_only_constant(statement: ast.Assign | ast.AnnAssign) -> bool:
    """Whether a name in capitals is annotated with a read-only type, perhaps inside ``Final`` or ``ClassVar``."""
    if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name) or not statement.target.id.isupper():
        return False
    annotation = statement.annotation
    while isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") in {"Final", "ClassVar"}:
        annotation = annotation.slice
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(head, ast.Name) and head.id in READ_ONLY


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in MUTABLE_CALLS
