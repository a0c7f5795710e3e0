"""What sessions of one host must have in common: every input says whose it is, and every host-wide difference is named (SHARE-3)."""

from __future__ import annotations

from typing import Any

import pytest

from jamcore.domain.cells import DEDICATED_CELLS
from jamcore.domain.plan import (
    AppPath,
    GuestPaths,
    McpServer,
    ModelEndpoint,
    MountRole,
    Plan,
    PlanContribution,
    PlanMount,
    Toolchain,
)
from jamcore.domain.records import Record
from jamcore.domain.requests import RoomRequest
from jamcore.domain.sandboxes import Access, Isolation, Resources
from jamcore.domain.shared_hosts import (
    IDENTITY_OF_PLAN,
    VALUE_CHARACTERS,
    HostInputs,
    Scope,
    SharedHostIncompatibleError,
    differences,
    require_compatible,
    scope_of,
)
from jamcore.testing.doubles import plans
from jamcore.testing.doubles.providers import CONTRIBUTION

MOUNT = PlanMount(
    role=MountRole.REFERENCE, source=AppPath(path="runtime-hosts/x"), guest_path="/jam/reference/x", access=Access.READ_ONLY
)
MUTATIONS: dict[str, Any] = {
    "provider": "other",
    "engine": "other",
    "cell": min(DEDICATED_CELLS, key=str),
    "minimum_isolation": Isolation.MICROVM,
    "agent_image": "other",
    "kits": ("kit@sha256:0",),
    "mcp_servers": (McpServer(name="tickets", digest="0"),),
    "mounts": (MOUNT,),
    "environment": (("GOOD_HOME", "/elsewhere"),),
    "environment_files": ("/srv/one.env",),
    "resources": Resources(memory_bytes=1 << 30),
    "endpoint": ModelEndpoint(origin="http://127.0.0.1:9", paths=("POST /v1/answers",)),
    "toolchain": Toolchain(provider="good", version="2", digest="1"),
    "paths": GuestPaths.HOST,
    "model": "another-model",
    "approvals": "ask",
}
"""Another value for each field. A field without one fails below, so that nobody adds one without saying what it means."""

FROM_REQUEST = {
    "provider": "provider",
    "engine": "engine",
    "configuration": "cell",
    "workspace": "cell",
    "placement": "cell",
    "endpoint": "endpoint",
    "resources": "resources",
    "model": "model",
    "approvals": "approvals",
    "environment_files": "environment_files",
}
NEVER_AN_INPUT = {
    "id": "the room's identity",
    "name": "a name for people",
    "agent": "chooses whose host it is",
    "path": "a Shared cell is Managed, and takes no path",
    "allow_dirty": "about a clone's source, which a Shared cell has not",
}


def base() -> HostInputs:
    """The inputs of a host of the good provider."""
    return HostInputs.of(plans.plan())


@pytest.mark.guarantee("SHARE-3")
def test_every_field_says_whose_it_is() -> None:
    """A field of the inputs without a declared scope is refused here, before it can be forgotten in a comparison."""
    assert [name for name in HostInputs.model_fields if scope_of(name) is None] == []


def test_the_scan_sees_a_field_without_a_scope() -> None:
    """The check above is one that can fail."""

    class Undeclared(Record):
        forgotten: str

    assert scope_of("forgotten", Undeclared) is None


@pytest.mark.guarantee("SHARE-3")
@pytest.mark.parametrize("field", sorted(HostInputs.model_fields))
def test_each_field_alone_decides(field: str) -> None:
    """Host-wide: refused, naming exactly this field with both values. Per session: no difference at all."""
    host = base()
    asked = host.model_copy(update={field: MUTATIONS[field]})
    assert asked != host
    found = differences(host, asked)
    if scope_of(field) is Scope.SESSION:
        assert found == ()
        require_compatible(host, asked, ref="jam-x")
        return
    assert [difference.field for difference in found] == [field]
    assert found[0].host != found[0].asked
    with pytest.raises(SharedHostIncompatibleError) as refused:
        require_compatible(host, asked, ref="jam-x")
    assert refused.value.code == "shared_host.incompatible"
    assert refused.value.context()["differs"].startswith(f"{field}: the host has ")


@pytest.mark.guarantee("SHARE-3")
def test_every_part_of_a_plan_is_an_input_or_says_which_host_it_is() -> None:
    """So a host-wide setting of a new provider, which can only come in through a plan, is compared by construction."""
    covered = set(HostInputs.model_fields) | IDENTITY_OF_PLAN
    assert sorted(set(Plan.model_fields) - covered) == []
    assert not IDENTITY_OF_PLAN & set(HostInputs.model_fields)


@pytest.mark.guarantee("SHARE-3")
def test_everything_a_room_asks_for_is_an_input_or_is_not_one_for_a_reason() -> None:
    """A new option of a room is declared as host-wide or per session before it can be used."""
    assert sorted(set(RoomRequest.model_fields) - set(FROM_REQUEST) - set(NEVER_AN_INPUT)) == []
    assert sorted(set(FROM_REQUEST.values()) - set(HostInputs.model_fields)) == []


@pytest.mark.guarantee("SHARE-3")
@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"agent_image": "newer"}, "agent_image"),
        ({"kits": ("k@sha256:1",)}, "kits"),
        ({"environment": (("GOOD_MODE", "fast"),)}, "environment"),
        ({"endpoint_paths": ("POST /v2/answers",)}, "endpoint"),
    ],
)
def test_what_a_plugin_contributes_is_compared(changed: dict[str, Any], field: str) -> None:
    """The plugin's own host-wide settings reach the comparison through the plan."""
    contribution = PlanContribution.model_validate(dict(CONTRIBUTION) | changed)
    found = differences(base(), HostInputs.of(plans.plan(contribution=contribution)))
    assert [difference.field for difference in found] == [field]


@pytest.mark.guarantee("SHARE-3")
def test_values_are_bounded_and_environments_show_names_alone() -> None:
    """What is said of a difference fits on a line and holds no value of an environment."""
    host = base()
    asked = host.model_copy(update={"environment": (("GOOD_MODE", "a-value"),), "agent_image": "x" * 5000})
    text = " ".join(map(str, differences(host, asked)))
    assert "GOOD_MODE=sha256:" in text
    assert "GOOD_HOME=sha256:" in text
    assert "a-value" not in text
    assert "/jam/state" not in text
    assert max(len(difference.asked) for difference in differences(host, asked)) <= VALUE_CHARACTERS
