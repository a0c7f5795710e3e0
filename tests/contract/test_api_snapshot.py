"""What authors may import changes only on purpose, and its version says how (PLUG-1, PLUG-2)."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from jamcore.testing.api_surface import RELEASED, SNAPSHOT, Surface, change, complaint, current


def snapshot(name: str) -> Surface:
    """Return a snapshot beside this test."""
    return Surface.read((Path(__file__).parent / "data" / Path(name).name).read_text(encoding="utf-8"))


@pytest.mark.guarantee("PLUG-2")
def test_the_published_names_are_sorted_and_exist() -> None:
    """``jamcore.api.__all__`` is what the module has."""
    api = importlib.import_module("jamcore.api")
    assert [name for name in api.__all__ if not hasattr(api, name)] == []
    assert list(api.__all__) == sorted(api.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


@pytest.mark.guarantee("PLUG-2")
def test_the_interface_is_the_snapshot() -> None:
    """Names, fields, methods, signatures and hooks are exactly those recorded.

    A change that is meant: `python -m jamcore.testing.api_surface`, and a fragment in changelog.d with the type ``plugin-api``.
    """
    recorded, now = snapshot(SNAPSHOT), current()
    found = change(recorded.lines, now.lines)
    assert (found.breaking, found.added) == ((), ()), "if this is meant, run `python -m jamcore.testing.api_surface`"
    assert recorded.version == now.version, "the version changed alone: run `python -m jamcore.testing.api_surface`"


@pytest.mark.guarantee("PLUG-1")
def test_the_version_is_raised_with_what_changed_since_the_last_release() -> None:
    """A major number when plugins that exist would break, a minor one when something is added; the failure names each such thing."""
    problem = complaint(snapshot(RELEASED), current())
    assert problem is None, problem
