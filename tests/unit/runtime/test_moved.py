"""What a guest rebuilds by itself is emptied once after the app directory moved, where the guest sees host paths (PLAN-4, CONT-5)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jamcore.domain import layout
from jamcore.domain.plan import GuestPaths
from jamcore.runtime.moved import forget_old_places
from jamcore.system.files import Files
from jamcore.testing.doubles import plans

pytestmark = pytest.mark.guarantee("PLAN-4")

SCRATCH = (".cache/db",)


def database(app: Path) -> Path:
    return app / layout.guest_disk(plans.HOST) / "home/.cache/db/state.sqlite"


def make(app: Path) -> Path:
    file = database(app)
    file.parent.mkdir(parents=True)
    file.write_text(str(app))
    return file


def test_only_a_move_empties_it(tmp_path: Path) -> None:
    """The first look notes the place; as long as it is the same nothing is lost; after a move it is emptied once."""
    app = tmp_path / "app"
    plan = plans.plan().model_copy(update={"paths": GuestPaths.HOST})
    assert forget_old_places(plan, app, SCRATCH, files=Files())
    make(app)
    assert not forget_old_places(plan, app, SCRATCH, files=Files())
    assert database(app).exists()
    moved = tmp_path / "moved"
    shutil.move(app, moved)
    assert forget_old_places(plan, moved, SCRATCH, files=Files())
    assert not database(moved).exists()
    assert database(moved).parent.is_dir()
    assert not forget_old_places(plan, moved, SCRATCH, files=Files())


def test_fixed_guest_paths_stay_true(tmp_path: Path) -> None:
    """Nothing is looked at, and nothing is noted."""
    file = make(tmp_path)
    assert not forget_old_places(plans.plan(), tmp_path, SCRATCH, files=Files())
    assert file.exists()
    assert [path.name for path in (tmp_path / layout.guest_disk(plans.HOST)).iterdir()] == ["home"]
