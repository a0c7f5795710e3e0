"""Where things lie below the app directory (WS-1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from uuid import UUID

import pytest

from jamcore.domain import layout
from jamcore.domain.errors import InvalidInputError

HOST, OTHER = UUID(int=1), UUID(int=2)
H, S = str(HOST), str(OTHER)

PLACES = {
    layout.host_root(HOST): f"runtime-hosts/{H}",
    layout.workspace_root(HOST): f"runtime-hosts/{H}/workspace-root",
    layout.session_workspace(HOST, OTHER): f"runtime-hosts/{H}/workspace-root/sessions/{S}",
    layout.host_native_workspace(HOST, HOST, OTHER): f"host-native/{H}/{H}/{S}",
    layout.provider_state(HOST, "codex"): f"runtime-hosts/{H}/provider-state/codex",
    layout.guest_disk(HOST): f"runtime-hosts/{H}/guest-disk",
    layout.recovery(HOST): f"runtime-hosts/{H}/recovery",
    layout.manifest(HOST): f"runtime-hosts/{H}/manifest.json",
    layout.checkpoint_root(HOST, OTHER): f"runtime-hosts/{H}/recovery/checkpoints/{S}",
    layout.packs(HOST): f"runtime-hosts/{H}/recovery/packs",
    layout.review_repository(HOST, OTHER): f"runtime-hosts/{H}/recovery/review/{S}.git",
    layout.owner_marker("jam-0123456789abcdef"): "cfg/sandbox-owners/jam-0123456789abcdef.json",
    layout.change(OTHER): f"change-requests/{S}",
    layout.EXPORTS: "workspace-exports",
}


@pytest.mark.guarantee("WS-1")
def test_places_are_fixed() -> None:
    """An app directory of today is read by every later Jam."""
    assert [made for made, written in PLACES.items() if made != written] == []
    assert len(PLACES) == 14


@pytest.mark.guarantee("WS-1")
def test_what_outlives_a_host_lies_outside_its_root() -> None:
    """Exports and change requests stay when a host's directory is removed."""
    root = PurePosixPath(layout.host_root(HOST))
    for kept in (layout.EXPORTS, layout.change(OTHER), layout.DATABASE, layout.owner_marker("jam-0")):
        assert root not in PurePosixPath(kept).parents


@pytest.mark.guarantee("WS-1", "SEC-2")
def test_what_a_guest_can_write_holds_nothing_of_jams() -> None:
    """Recovery, review repositories and the manifest lie beside the mounts, never below one."""
    mounted = [
        PurePosixPath(place)
        for place in (layout.workspace_root(HOST), layout.provider_state(HOST, "codex"), layout.guest_disk(HOST))
    ]
    for private in (layout.recovery(HOST), layout.review_repository(HOST, OTHER), layout.manifest(HOST), layout.packs(HOST)):
        path = PurePosixPath(private)
        assert not [mount for mount in mounted if mount == path or mount in path.parents]


@pytest.mark.guarantee("WS-1")
@pytest.mark.parametrize(
    "place",
    [
        lambda name: layout.provider_state(HOST, name),
        lambda name: layout.toolchain(name, "1"),
        layout.engine_root,
    ],
)
@pytest.mark.parametrize("name", ["..", "a/b", "", ".", "A", "a\x00", "/etc"])
def test_a_name_that_is_no_identifier_makes_no_path(place: Callable[[str], str], name: str) -> None:
    """Names of plugins are the only text in a path, and they are checked there."""
    with pytest.raises(InvalidInputError):
        place(name)
