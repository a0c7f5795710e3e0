"""The probes for what a machine has answer truthfully."""

from __future__ import annotations

import os

import pytest

from jamcore.testing.needs import Needs, probe_git, probe_root


def test_git_is_missing_where_the_path_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    """An empty search path has no git, and the reason says so."""
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert probe_git() == "no program git on the path"


def test_root_is_the_effective_user() -> None:
    """The probe agrees with the process."""
    assert (probe_root() is None) == (os.geteuid() == 0)


def test_a_need_is_probed_once() -> None:
    """Probes may take seconds, so their answers are kept for the run."""
    calls: list[int] = []
    needs = Needs({"slow": lambda: calls.append(1)})
    assert [needs.missing("slow"), needs.missing("slow"), len(calls)] == [None, None, 1]
