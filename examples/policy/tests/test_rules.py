"""What this policy is for: the rules are in every room, read-only, and what is denied is in no plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from jamcore.api import FULL_CELLS, Ability, Access, Cell, PlanContext
from jamcore.testing.policies.probe import NAME, probed

from jam_example_policy.plugin import (
    DENIED,
    DENIED_HOSTS,
    PLACE,
    SHOWN_AS,
    ExamplePolicyPolicy,
    denied,
)
from jam_example_policy.reading import BUNDLED, MOST_FILES, VARIABLE, rules

pytestmark = pytest.mark.anyio


def context_of(cell: Cell) -> PlanContext:
    """Return what a provider is told of a cell."""
    return PlanContext(
        cell=cell,
        state_root=f"/jam/state/{NAME}",
        tools_root=f"/jam/tools/{NAME}",
        home="/home/agent",
        relay_url="http://127.0.0.1:8790",
        abilities=frozenset(Ability),
    )


@pytest.mark.parametrize("cell", sorted(FULL_CELLS, key=str), ids=str)
async def test_every_plan_has_the_rules_and_reaches_nothing_that_is_denied(cell: Cell) -> None:
    """Whatever the provider contributes; what it contributes besides stays."""
    alone, _ = await probed()
    manager, _ = await probed(("example_policy", ExamplePolicyPolicy()))
    own = await alone.provider(NAME).contribute_plan(context_of(cell))
    plan = await manager.provider(NAME).contribute_plan(context_of(cell))
    added = set(plan.extra_mounts) - set(own.extra_mounts)
    assert {(mount.guest_path, mount.access) for mount in added} == {(f"/jam/state/{NAME}/{PLACE}", Access.READ_ONLY)}
    assert dict(plan.environment)[SHOWN_AS] == f"/jam/state/{NAME}/{PLACE}"
    assert set(plan.denied_hosts) - set(own.denied_hosts) == set(DENIED_HOSTS)
    assert set(own.endpoint_paths) - set(plan.endpoint_paths) == {"GET /v1/files", "POST /v1/files"}
    files = (await manager.provider(NAME).prepare(context_of(cell))).files
    assert [file.content for file in files if file.path == f"{PLACE}/house.md"] == [(BUNDLED / "house.md").read_text()]


@pytest.mark.parametrize("path", DENIED)
def test_what_lies_below_a_denied_path_is_denied(path: str) -> None:
    """With any method and any query, and nothing that merely begins alike."""
    assert denied(f"POST {path}")
    assert denied(f"GET {path}/one?limit=1")
    assert not denied(f"GET {path}_of_another_kind")


async def test_the_daemon_s_environment_may_name_other_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with files in directories of its own."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one.md").write_text("be kind")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    manager, _ = await probed(("example_policy", ExamplePolicyPolicy()))
    files = (await manager.provider(NAME).prepare(context_of(min(FULL_CELLS, key=str)))).files
    assert [file.content for file in files if file.path == f"{PLACE}/more/one.md"] == ["be kind"]


@pytest.mark.parametrize("files", [0, MOST_FILES + 1])
def test_rules_that_are_not_there_are_no_rules(tmp_path: Path, files: int) -> None:
    """The policy cannot be made then, and Jam starts no room until it can, or until a person blocks it by name."""
    for number in range(files):
        (tmp_path / f"{number}.md").write_text("")
    with pytest.raises(ValueError, match="can be rules"):
        rules(tmp_path, PLACE)
