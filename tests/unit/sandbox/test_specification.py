"""Host paths of a specification lie in Jam's storage, or are exactly what a person named (ENG-6, PLAN-4)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from jamcore.domain import layout
from jamcore.domain.cells import ON_THE_HOST, Ability, Cell, Configuration, Placement, WorkspaceSource
from jamcore.domain.plan import AppPath, Plan, PlanMount
from jamcore.domain.sandboxes import Access, SandboxSpec
from jamcore.sandbox.planning import ReferenceFolder
from jamcore.sandbox.specification import UnsafePathError, spec_of
from jamcore.testing.doubles import plans

ALL = frozenset(Ability) - ON_THE_HOST


def make(app: Path) -> None:
    for path in (
        layout.guest_disk(plans.HOST),
        layout.provider_state(plans.HOST, "good"),
        layout.workspace_root(plans.HOST) + "/sessions",
    ):
        (app / path).mkdir(parents=True)


def plan_with(source: WorkspaceSource, **changes: Any) -> Plan:
    cell = Cell(configuration=Configuration.JAM_MANAGED, workspace=source, placement=Placement.DEDICATED)
    return plans.plan(plans.inputs_for(cell, **changes))


def relative(spec: SandboxSpec, root: Path) -> list[tuple[Path, str]]:
    pairs = [(spec.guest_disk, ""), *((mount.host_path, mount.guest_path) for mount in spec.mounts)]
    return [(Path(host).relative_to(root), guest) for host, guest in pairs]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    make(root)
    return root


@pytest.mark.guarantee("PLAN-4")
def test_moving_the_app_directory_moves_the_specification_and_not_the_plan(app: Path, tmp_path: Path) -> None:
    """One plan, two places: the engine's paths follow."""
    plan = plans.plan()
    before = spec_of(plan, app, abilities=ALL)
    moved = tmp_path / "elsewhere" / "new app\nné"
    moved.parent.mkdir()
    shutil.move(app, moved)
    after = spec_of(plan, moved, abilities=ALL)
    assert relative(before, app) == relative(after, moved)
    assert plans.plan() == plan


def test_a_specification_has_everything(app: Path, tmp_path: Path) -> None:
    """Mounts in an order that nests, Jam's own marked as such, a reach port where the engine has the ability."""
    reference = tmp_path / "docs"
    reference.mkdir()
    plan = plans.plan(plans.inputs(references=(ReferenceFolder(name="docs", path=str(reference)),)))
    spec = spec_of(plan, app, abilities=ALL)
    assert spec.name == plan.name
    assert spec.guest_disk == str(app / layout.guest_disk(plans.HOST))
    assert [(m.guest_path, m.access, m.owned) for m in spec.mounts] == [
        ("/jam/reference/docs", Access.READ_ONLY, False),
        ("/jam/state/good", Access.READ_WRITE, True),
        ("/jam/work", Access.READ_WRITE, True),
    ]
    assert spec.reach_ports == (8790,)
    assert spec_of(plan, app, abilities=frozenset()).reach_ports == ()
    assert spec.environment == plan.environment


@pytest.mark.guarantee("ENG-6")
@pytest.mark.parametrize("part", ["guest-disk", "provider-state/good", "provider-state", "workspace-root/sessions", "."])
def test_a_symbolic_link_below_the_app_directory_is_refused(app: Path, tmp_path: Path, part: str) -> None:
    """Whatever component was replaced, and wherever it leads: also back into the app directory."""
    victim = (app / layout.host_root(plans.HOST) / part).resolve()
    for target in (tmp_path / "outside", app / "inside"):
        victim.rename(target)
        victim.symlink_to(target)
        with pytest.raises(UnsafePathError):
            spec_of(plans.plan(), app, abilities=ALL)
        victim.unlink()
        target.rename(victim)
    spec_of(plans.plan(), app, abilities=ALL)


@pytest.mark.guarantee("ENG-6")
def test_a_plan_that_climbs_is_refused(app: Path) -> None:
    """A stored plan is read from a file: its relative paths are not trusted either."""
    (app.parent / "secret").mkdir()
    plan = plans.plan()
    assert isinstance(plan.primary, PlanMount)
    for source in ("../secret", str(app.parent / "secret"), "runtime-hosts/../../secret"):
        climbing = plan.primary.model_copy(update={"source": AppPath(path=source)})
        with pytest.raises(UnsafePathError):
            spec_of(plan.model_copy(update={"primary": climbing}), app, abilities=ALL)


@pytest.mark.guarantee("ENG-6", "CAP-7")
def test_a_persons_path_is_taken_as_recorded(app: Path, tmp_path: Path) -> None:
    """It must exist, must not have become a link, and must not show Jam's own directory to the guest."""
    repository = tmp_path / "my repo\nzwei ü"
    repository.mkdir()
    spec = spec_of(plan_with(WorkspaceSource.DIRECT_HOST, path=str(repository)), app, abilities=ALL)
    assert [(m.host_path, m.owned) for m in spec.mounts if m.guest_path.startswith("/jam/work/")] == [(str(repository), False)]
    clone = spec_of(plan_with(WorkspaceSource.PRIVATE_HOST_CLONE, path=str(repository)), app, abilities=ALL).clone
    assert clone is not None
    assert clone.host_path == str(repository)
    link = tmp_path / "link"
    link.symlink_to(repository)
    file = tmp_path / "file"
    file.touch()
    for source in (WorkspaceSource.DIRECT_HOST, WorkspaceSource.PRIVATE_HOST_CLONE):
        for path in (link, file, tmp_path / "absent", app, app / "runtime-hosts"):
            with pytest.raises(UnsafePathError):
                spec_of(plan_with(source, path=str(path)), app, abilities=ALL)
    with pytest.raises(UnsafePathError, match="Jam's own directory"):
        spec_of(plan_with(WorkspaceSource.DIRECT_HOST, path=str(tmp_path)), app, abilities=ALL)
