"""Makes docs/guarantees.md: every guarantee with the tests that carry its id. Run ``python -m jamcore.testing.guarantees``.

The ids and sentences are data (docs/guarantees-source.toml), the tests are read from their source, so the page is never typed and
making it runs nothing. Whether the tests pass is the test run's to say (``--guarantees-json``).
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jamcore.testing.sources import files_with_tests, workspace_root

SOURCE = "docs/guarantees-source.toml"
PAGE = "docs/guarantees.md"
_HEAD = """\
# What Jam guarantees, and which tests prove it

Made by `python -m jamcore.testing.guarantees` from `guarantees-source.toml` and the tests' marks; do not edit.
A guarantee is proven when every test below it passes; `pytest --guarantees-json FILE` writes what a run proved.

"""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One line of the source."""

    id: str
    family: str
    text: str


@dataclass(frozen=True, slots=True, order=True)
class Proof:
    """One test that carries an id. ``sentence`` is the first line of its docstring, or empty."""

    guarantee: str
    test: str
    sentence: str


def load(path: Path) -> tuple[Guarantee, ...]:
    """Read the guarantees in the order of the file.

    Raises:
        KeyError: An id of a family that the file does not name.
    """
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    families: Mapping[str, str] = data["families"]
    return tuple(Guarantee(id, families[id.rpartition("-")[0]], text) for id, text in data["guarantees"].items())  # noqa: A001 - it is the id


def find_proofs(root: Path) -> tuple[Proof, ...]:
    """Read the marks of every test of the workspace, sorted."""
    found: list[Proof] = []
    for path in files_with_tests(root):
        name = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_bytes(), filename=name)
        found.extend(_proofs_in(tree, name, _module_marks(tree)))
    return tuple(sorted(set(found)))


def render(guarantees: Iterable[Guarantee], proofs: Iterable[Proof]) -> str:
    """Return the page."""
    by_id: dict[str, list[Proof]] = {}
    for proof in proofs:
        by_id.setdefault(proof.guarantee, []).append(proof)
    known = tuple(guarantees)
    carried = sum(guarantee.id in by_id for guarantee in known)
    lines = [_HEAD + f"{carried} of {len(known)} carry at least one test.\n"]
    family = None
    for guarantee in known:
        if guarantee.family != family:
            family = guarantee.family
            lines.append(f"\n## {family}\n")
        lines.append(f"\n**{guarantee.id}** {guarantee.text}\n")
        lines.extend(_entry(proof) for proof in by_id.get(guarantee.id, ()))
        if guarantee.id not in by_id:
            lines.append("- not yet proven\n")
    return "".join(lines)


def unknown_ids(guarantees: Iterable[Guarantee], proofs: Iterable[Proof]) -> tuple[Proof, ...]:
    """Return the proofs of ids that the source does not have."""
    known = {guarantee.id for guarantee in guarantees}
    return tuple(proof for proof in proofs if proof.guarantee not in known)


def _entry(proof: Proof) -> str:
    sentence = f": {proof.sentence}" if proof.sentence else ""
    return f"- `{proof.test}`{sentence}\n"


def _proofs_in(node: ast.Module | ast.ClassDef, prefix: str, inherited: tuple[str, ...]) -> Iterator[Proof]:
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from _proofs_in(child, f"{prefix}::{child.name}", (*inherited, *_ids(child.decorator_list)))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test"):
            sentence = (ast.get_docstring(child) or "").partition("\n")[0]
            for guarantee in (*inherited, *_ids(child.decorator_list)):
                yield Proof(guarantee, f"{prefix}::{child.name}", sentence)


def _module_marks(tree: ast.Module) -> tuple[str, ...]:
    """Return the ids of a module's ``pytestmark``, alone or in a list."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            value = node.value
            return _ids(value.elts if isinstance(value, ast.List | ast.Tuple) else [value])
    return ()


def _ids(marks: Iterable[ast.expr]) -> tuple[str, ...]:
    """Return the arguments of every ``….guarantee("…")`` among the expressions."""
    return tuple(
        argument.value
        for mark in marks
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "guarantee"
        for argument in mark.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or with ``--check`` only say whether it is up to date."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.guarantees", description="Make docs/guarantees.md.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the page is not up to date")
    options = parser.parse_args(arguments)
    root = workspace_root(Path.cwd())
    guarantees, proofs = load(root / SOURCE), find_proofs(root)
    for proof in unknown_ids(guarantees, proofs):
        sys.stderr.write(f"{proof.test}: no guarantee {proof.guarantee}\n")
    page, text = root / PAGE, render(guarantees, proofs)
    if options.check:
        return 0 if page.exists() and page.read_text(encoding="utf-8") == text else 1
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
