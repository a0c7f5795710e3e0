"""Guest paths of an engine that cannot choose any: the mapping is part of the plan, and moves with the app directory (PLAN-4)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain import layout
from jamcore.domain.cells import ON_THE_HOST, Ability, Cell, Configuration, Placement, WorkspaceSource
from jamcore.domain.plan import GUEST_HOME, RELAY_URL, ExtraMount, GuestPaths, Plan
from jamcore.domain.provider_rules import plan_context
from jamcore.domain.sandboxes import Access, Isolation
from jamcore.sandbox.places import GuestView, extra_links, guest_view
from jamcore.sandbox.planning import EngineFacts, ReferenceFolder, session_directory
from jamcore.sandbox.prepare import MAKE_LINKS
from jamcore.sandbox.specification import spec_of
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.providers import CONTRIBUTION

pytestmark = pytest.mark.guarantee("PLAN-4")

ON_HOST = EngineFacts(name="plain", isolation=Isolation.NONE, abilities=frozenset(Ability) - {Ability.REACH})
HOST_MOUNTS = EngineFacts(name="vm", isolation=Isolation.MICROVM, abilities=ON_HOST.abilities - {Ability.HOST_HOME})
SESSION_DIRECTORY = session_directory(plans.SESSION)
DISK = layout.guest_disk(plans.HOST)


def planned(engine: EngineFacts = ON_HOST, source: WorkspaceSource = WorkspaceSource.MANAGED, **changes: Any) -> Plan:
    cell = Cell(configuration=Configuration.JAM_MANAGED, workspace=source, placement=Placement.DEDICATED)
    return plans.plan(plans.inputs_for(cell, **changes), engine=engine)


def directories(root: Path) -> Path:
    for path in (DISK, layout.provider_state(plans.HOST, "good"), layout.workspace_root(plans.HOST) + "/sessions"):
        (root / path).mkdir(parents=True)
    return root


@pytest.mark.parametrize(
    ("engine", "paths"),
    [(plans.ALL_ABLE, GuestPaths.FIXED), (HOST_MOUNTS, GuestPaths.HOST_MOUNTS), (ON_HOST, GuestPaths.HOST)],
)
def test_the_plan_says_where_its_guest_sees_things(engine: EngineFacts, paths: GuestPaths) -> None:
    """One word, from the engine's facts; and a plan without it is stored as it always was."""
    plan = planned(engine)
    assert plan.paths is paths
    stored = json.loads(plan.canonical_json())
    assert stored.get("paths") == (None if paths is GuestPaths.FIXED else paths.value)
    assert Plan.model_validate_json(plan.canonical_json()) == plan
    others = {name: value for name, value in stored.items() if name not in ("paths", "engine", "minimum_isolation")}
    fixed = json.loads(planned(plans.ALL_ABLE).canonical_json())
    assert others == {name: fixed[name] for name in others}


def test_everything_is_seen_at_its_host_path(tmp_path: Path) -> None:
    """Work, state, home and reference folders; what lies in no place is left alone."""
    app = directories(tmp_path / "app")
    reference = tmp_path / "docs"
    reference.mkdir()
    plan = planned(references=(ReferenceFolder(name="docs", path=str(reference)),))
    view = guest_view(plan, app)
    assert view.path(SESSION_DIRECTORY) == str(app / layout.session_workspace(plans.HOST, plans.SESSION))
    assert view.path("/jam/state/good/a") == str(app / layout.provider_state(plans.HOST, "good") / "a")
    assert view.path(f"{GUEST_HOME}/.cache") == str(app / DISK / "home/.cache")
    assert view.path("/jam/reference/docs") == str(reference)
    for path in ("/usr/bin/env", "/jam/workers", f"{GUEST_HOME}s", "/jam"):
        assert view.path(path) == path
    spec = spec_of(plan, app, abilities=ON_HOST.abilities)
    assert [mount.guest_path for mount in spec.mounts] == [mount.host_path for mount in spec.mounts]
    assert dict(spec.environment)["GOOD_HOME"] == str(app / layout.provider_state(plans.HOST, "good") / "home")
    assert spec.reach_ports == ()


def test_an_engine_with_a_home_of_its_own_keeps_it(tmp_path: Path) -> None:
    """Only mounts are where the host has them."""
    view = guest_view(planned(HOST_MOUNTS), tmp_path)
    assert view.path(GUEST_HOME) == GUEST_HOME
    assert view.path("/jam/state/good") == str(tmp_path / layout.provider_state(plans.HOST, "good"))


def test_a_private_clone_lies_on_the_guest_disk(tmp_path: Path) -> None:
    """The clone's place for the guest, for the engine and for Jam's own look at it are one."""
    view = guest_view(planned(source=WorkspaceSource.PRIVATE_HOST_CLONE), tmp_path)
    assert view.path(f"{SESSION_DIRECTORY}/a.txt") == str(tmp_path / DISK / "clone/a.txt")


def test_moving_the_app_directory_changes_no_plan(tmp_path: Path) -> None:
    """The plan holds no path below the app directory; the view follows it."""
    app = directories(tmp_path / "app")
    plan = planned()
    assert str(tmp_path) not in plan.canonical_json().decode()
    moved = tmp_path / "moved"
    shutil.move(app, moved)
    found = spec_of(plan, moved, abilities=ON_HOST.abilities)
    assert all(mount.guest_path.startswith(f"{moved}/") for mount in found.mounts)
    assert dict(found.environment)["GOOD_HOME"].startswith(f"{moved}/")


def test_variables_are_translated_whole(tmp_path: Path) -> None:
    """A path, a list of paths and the endpoint's address; never the middle of a word."""
    url = "http://127.0.0.1:4000/word"
    view = guest_view(planned(), tmp_path, relay_url=url)
    home = str(tmp_path / DISK / "home")
    given = (
        ("A", GUEST_HOME),
        ("B", f"{GUEST_HOME}/bin:/usr/bin:/jam/workers"),
        ("C", RELAY_URL),
        ("D", f"{RELAY_URL}/v1"),
        ("E", f"see {GUEST_HOME}"),
        ("F", f"{RELAY_URL}1"),
    )
    assert view.environment(given) == (
        ("A", home),
        ("B", f"{home}/bin:/usr/bin:/jam/workers"),
        ("C", url),
        ("D", f"{url}/v1"),
        ("E", f"see {GUEST_HOME}"),
        ("F", f"{RELAY_URL}1"),
    )


def test_a_plugin_hears_the_same_places(tmp_path: Path) -> None:
    """When it prepares it is told what its guest sees; when it plans, what is the same on every machine."""
    plan = planned()
    told = guest_view(plan, tmp_path, relay_url="http://127.0.0.1:1/w").context(plan_context("good", plan.cell, ON_HOST.abilities))
    assert told.state_root == str(tmp_path / layout.provider_state(plans.HOST, "good"))
    assert (told.home, told.relay_url) == (str(tmp_path / DISK / "home"), "http://127.0.0.1:1/w")


def with_extra(subdirectory: str, guest_path: str, engine: EngineFacts) -> Plan:
    extra = ExtraMount(subdirectory=subdirectory, guest_path=guest_path, access=Access.READ_WRITE)
    return plans.plan(engine=engine, contribution=CONTRIBUTION.model_copy(update={"extra_mounts": (extra,)}))


@pytest.mark.guarantee("PLAN-5")
def test_extra_directories_are_linked_where_the_provider_expects_them(tmp_path: Path) -> None:
    """Below the home by a link; below the state root they lie where they are; and fixed paths need none."""
    state = tmp_path / layout.provider_state(plans.HOST, "good")
    plan = with_extra("cache", f"{GUEST_HOME}/.cache/good", ON_HOST)
    expected = (str(tmp_path / DISK / "home/.cache/good"), str(state / "cache"))
    assert extra_links(plan, guest_view(plan, tmp_path)) == (expected,)
    same = with_extra("cache", "/jam/state/good/cache", ON_HOST)
    assert extra_links(same, guest_view(same, tmp_path)) == ()
    own_home = with_extra("cache", f"{GUEST_HOME}/.cache/good", HOST_MOUNTS)
    assert extra_links(own_home, guest_view(own_home, tmp_path)) == ((f"{GUEST_HOME}/.cache/good", str(state / "cache")),)
    fixed = with_extra("cache", f"{GUEST_HOME}/.cache/good", plans.ALL_ABLE)
    assert extra_links(fixed, guest_view(fixed, tmp_path)) == ()


def test_links_are_made_again_and_replace_nothing_else(tmp_path: Path) -> None:
    """The script of the preparation: idempotent, follows a moved target, and leaves a directory of the guest's alone."""
    place, target, moved = tmp_path / "home/a b/link", tmp_path / "one", tmp_path / "two"

    def make(*pairs: Path) -> int:
        return subprocess.run(("/bin/sh", "-c", MAKE_LINKS, "x", *map(str, pairs)), check=False, timeout=20).returncode

    for wanted in (target, target, moved):
        assert make(place, wanted) == 0
        assert place.readlink() == wanted
    place.unlink()
    place.mkdir()
    assert make(place, target) == 4
    assert place.is_dir()
    assert not place.is_symlink()


@given(st.text(), st.lists(st.tuples(st.text(), st.text())))
def test_fixed_paths_are_what_they_are(path: str, pairs: list[tuple[str, str]]) -> None:
    """The view of an engine that chooses guest paths changes nothing."""
    view = GuestView(())
    assert view.path(path) == path
    assert view.environment(tuple(pairs)) == tuple(pairs)


def test_only_an_engine_on_the_host_has_its_traits() -> None:
    """What an engine with a file system and a network of its own can do says nothing of the host."""
    assert GuestPaths.of(frozenset(Ability) - ON_THE_HOST) is GuestPaths.FIXED
