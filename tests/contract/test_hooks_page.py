"""The reference of the hooks is what the specifications and the code say (PLUG-1, KIT-1)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.validation import NEEDS
from jamcore.testing.hooks_page import PAGE, Hook, hooks, render
from jamcore.testing.sources import Source

pytestmark = pytest.mark.guarantee("PLUG-1", "KIT-1")

MODULE = re.compile(r"`(jamcore[\w.]+)`")
OWN = ("jamcore.plugins.", "jamcore.testing.")
"""What calls hooks with probes, in all modules: the page says that once."""


def test_the_page_is_up_to_date(root: Path) -> None:
    """Made again it is the same: `make guarantees`."""
    assert (root / PAGE).read_text(encoding="utf-8") == render()


def test_every_hook_is_told_whole() -> None:
    """What it is for, each argument, what it returns, who calls it and when, and since which version."""
    for hook in hooks():
        assert hook.summary, hook.name
        assert hook.returns, hook.name
        assert MODULE.search(hook.called), hook.name
        assert re.fullmatch(r"\d+\.\d+", hook.since), hook.name
        assert list(hook.arguments) == list(hook.signature.parameters), hook.name
    assert {need.hook for need in NEEDS} <= {hook.name for hook in hooks()}


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook.name)
def test_those_named_as_callers_are_the_callers(hook: Hook, core: tuple[Source, ...]) -> None:
    """Each module of the core that asks a provider's hook is named, and no other one."""
    (method,) = [name for name, member in vars(ProviderHooks).items() if f"ProviderSpecs.{hook.name}`" in (member.__doc__ or "")]
    calling = {source.module for source in core if not source.module.startswith(OWN) and method in set(_asked(source.tree()))}
    named = {module for module in MODULE.findall(hook.called) if not module.startswith(OWN)}
    assert named == calling


def test_the_scan_sees_a_caller() -> None:
    """Through a name, an attribute, a lookup, and handed on without a call; not another object's method of the same name."""
    seen = "hooks.prepare(c); self.hooks.declare_capture(); plugins.provider(x).accepts_version(a, b); f(hooks.check_credentials)"
    assert set(_asked(ast.parse(seen))) == {"prepare", "declare_capture", "accepts_version", "check_credentials"}
    assert not set(_asked(ast.parse("git.prepare(); self.preparer.prepare()")))


def _asked(tree: ast.Module) -> Iterator[str]:
    """Yield the facade's methods that a module asks for: attributes of what is called hooks, or of a provider that was looked up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            called = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if called in ("hooks", "_hooks", "provider"):
                yield node.attr
