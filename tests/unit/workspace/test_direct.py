"""A directory in which an agent works in place is a project's, and nothing that holds more than that (CAP-7, ENG-6)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jamcore.workspace.direct import DirectoryRefusedError, inspect_directory

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("CAP-7")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A home with a project, the app directory in it, and a link."""
    for name in ("home/project/src", "home/app/cfg", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/link").symlink_to("project")
    (tmp_path / "home/file").write_text("")
    return tmp_path


def look(place: Path, name: str) -> Path:
    """Ask for a directory below the place."""
    return inspect_directory(place / name, app=place / "home/app", home=place / "home")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("home/project", "home/project"),
        ("home/link", "home/project"),
        ("home/link/src", "home/project/src"),
        ("elsewhere", "elsewhere"),
    ],
)
def test_a_project_is_named_by_where_it_really_lies(place: Path, name: str, found: str) -> None:
    """Links are followed once, now: the plan holds the place that was looked at."""
    assert look(place, name) == (place / found).resolve()


@pytest.mark.parametrize(
    "name", ["home", ".", "../..", "home/app", "home/app/cfg", "home/file", "home/none", "home/no\nne", "home/\udcff"]
)
def test_what_is_refused(place: Path, name: str) -> None:
    """Home or what holds it, Jam's own directory from outside and inside, no directory at all: one type, with the reason."""
    with pytest.raises(DirectoryRefusedError) as refused:
        look(place, name)
    assert refused.value.problem
    assert refused.value.path.isprintable() or "\n" in refused.value.path


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_directory_that_may_not_be_written(place: Path) -> None:
    """An agent that can only read would fail in the middle of its work."""
    (place / "elsewhere").chmod(0o500)
    with pytest.raises(DirectoryRefusedError):
        look(place, "elsewhere")
