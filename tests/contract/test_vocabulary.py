"""One word for one thing: the vocabulary of the guarantees, in every identifier."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from types import MappingProxyType

import pytest

from jamcore.testing.sources import Source

INSTEAD_OF = MappingProxyType(
    {
        "membership": "session",
        "managed_workspace": "session workspace",
        "chatroom": "room",
        "container": "sandbox",
        "vm": "sandbox",
        "jail": "sandbox",
        "hypervisor": "engine",
        "snapshot_id": "checkpoint",
        "whitelist": "allowed",
        "blacklist": "denied",
        "hibernate": "park",
        "suspend_sandbox": "park",
    }
)
MODULE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "core", "stuff", "tools_misc", "manager_utils"})
WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
ENGINE_WORDS = frozenset({"container", "vm", "hypervisor"})


def test_identifiers_use_the_vocabulary(sources: tuple[Source, ...]) -> None:
    """No identifier uses a forbidden synonym; an engine's own package may use the word that its engine uses."""
    assert [hit for source in sources for hit in synonyms(source.tree(), source.module)] == []


def test_no_module_is_a_drawer(sources: tuple[Source, ...]) -> None:
    """No module is named after what does not fit elsewhere."""
    assert [source.name for source in sources if source.path.stem in MODULE_NAMES] == []


@pytest.mark.parametrize(
    "code", ["class RoomMembership: ...", "managed_workspace_root = 1", "def start_vm(): ...", "a.container", "f(vm=1)"]
)
def test_the_scan_sees(code: str) -> None:
    """The scan above splits names into words and finds the synonym."""
    assert list(synonyms(ast.parse(code), "jamcore.x"))


@pytest.mark.parametrize("code", ["contained = 1", "vmin = 1", "class WorkspaceManaged: ...", "x = 'container'"])
def test_the_scan_allows(code: str) -> None:
    """Words that only contain a synonym, and text, are free."""
    assert not list(synonyms(ast.parse(code), "jamcore.x"))


def synonyms(tree: ast.Module, module: str) -> Iterator[str]:
    """Yield each identifier with a forbidden word, and the word to use."""
    free = ENGINE_WORDS if module.startswith(("jamcore.engines.", "jamcore.testing")) else frozenset()
    for node in ast.walk(tree):
        for name in _defined_or_used(node):
            words = "_" + WORD_BREAK.sub("_", name).lower().strip("_") + "_"
            for synonym, word in INSTEAD_OF.items():
                if f"_{synonym}_" in words and synonym not in free:
                    yield f"{module}:{getattr(node, 'lineno', 0)} {name}: say {word}"


def _defined_or_used(node: ast.AST) -> Iterator[str]:
    for field in ("name", "id", "attr", "arg"):
        if isinstance(value := getattr(node, field, None), str):
            yield value
