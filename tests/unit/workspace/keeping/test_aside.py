"""A directory that gets another name replaces nothing (WS-4)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from jamcore.system import tree_calls
from jamcore.system.files import Files
from jamcore.workspace.keeping.aside import SetAside

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("WS-4", "WS-6")]


@pytest.mark.parametrize("knows", [True, False])
def test_what_has_the_new_name_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, knows: bool) -> None:
    """Not even an empty directory is replaced, also on a file system that does not know how to say so."""
    rename = tree_calls._rename

    def without(call: str, *arguments: int | bytes) -> int:
        return rename(call, *arguments) if knows or call != "renameat2" else errno.EINVAL

    monkeypatch.setattr(tree_calls, "_rename", without)
    aside = SetAside(tmp_path, files=Files())
    for name in ("tree", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "tree" / "file").write_text("x")
    with pytest.raises(FileExistsError):
        aside.move("tree", "other")
    assert (tmp_path / "tree" / "file").read_text() == "x"
    assert not any((tmp_path / "other").iterdir())
    (tmp_path / "other").rmdir()
    aside.move("tree", "other")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    assert (tmp_path / "other" / "file").read_text() == "x"
