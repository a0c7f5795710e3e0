"""What is wrong with a plugin is found when it is loaded, all of it, and ends that plugin alone (CAP-6)."""

from __future__ import annotations

import anyio
import pytest

from jamcore.domain.cells import DEDICATED_MANAGED_CELLS, FULL_CELLS
from jamcore.domain.plugins import PluginReport
from jamcore.plugins.manager import ProviderManager
from jamcore.testing.doubles import providers as doubles

pytestmark = pytest.mark.anyio


def manager() -> ProviderManager:
    return ProviderManager(hook_limit_s=0.2, async_hook_limit_s=0.2, import_limit_s=5)


async def report_on(plugin: object, name: str = "good") -> PluginReport:
    return await manager().add(name, plugin, distribution="doubles", version="1")


@pytest.mark.guarantee("CAP-6", "CAP-3")
async def test_right_plugins_are_loaded_and_make_the_one_table() -> None:
    """Seven cells and three cells, from the plugins alone."""
    plugins = manager()
    assert (await plugins.add("good", doubles.GoodProvider())).violations == ()
    assert (await plugins.add("managed_only", doubles.ManagedOnlyProvider())).violations == ()
    table = plugins.table()
    assert table.providers() == ("good", "managed_only") == plugins.names()
    assert {cell for name, cell in table.rows() if name == "good"} == FULL_CELLS
    assert {cell for name, cell in table.rows() if name == "managed_only"} == DEDICATED_MANAGED_CELLS
    assert plugins.table() is table
    with pytest.raises(RuntimeError):
        await plugins.add("late", doubles.GoodProvider())


BAD: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (doubles.OtherInterfaceProvider, "good", ("built for plugin interface 2.0, and this core has 1.0",)),
    (doubles.NoInterfaceProvider, "good", ("has no api_version",)),
    (doubles.MisspeltHookProvider, "good", ("jam_contribute_plam",)),
    (doubles.UnmarkedHookProvider, "good", ("jam_prepare: not marked",)),
    (doubles.WrongSignatureProvider, "good", ("jam_place_session", "host_id")),
    (
        doubles.WrongTypeProvider,
        "good",
        ("jam_contribute_plan for dedicated/jam-managed/managed: returned dict", "jam_accepts_version: returned int, not bool"),
    ),
    (doubles.HiddenTypeProvider, "good", ("jam_contribute_plan", "not valid")),
    (doubles.CoroutineProvider, "good", ("jam_declare_capture: returned coroutine, not CaptureList",)),
    (doubles.NotAwaitableProvider, "good", ("jam_check_credentials: returned CredentialReport, not an awaitable",)),
    (
        doubles.RaisingProvider,
        "good",
        (
            "for dedicated/jam-managed/direct-host: raised KeyError",
            "for dedicated/environment-files/private-host-clone: raised KeyError",
        ),
    ),
    (doubles.ExitingProvider, "good", ("jam_prepare", "raised SystemExit: 3")),
    (doubles.CancellingProvider, "good", ("jam_prepare", "raised CancelledError")),
    (doubles.HangingProvider, "good", ("jam_prepare", "did not come back within 0.2 s")),
    (doubles.AsyncHangingProvider, "good", ("jam_check_credentials: did not come back within 0.2 s",)),
    (doubles.MoodyProvider, "good", ("jam_describe_provider: two calls gave different answers",)),
    (doubles.WrongNameProvider, "good", ("describes itself as 'better' but is installed as 'good'",)),
    (doubles.BadSharedProvider, "good", ("cell shared/jam-managed/direct-host",)),
    (
        doubles.LeakingProvider,
        "good",
        ("'GOOD_API_KEY': looks like a secret", "'MY_BAND_AGENT_KEY': belongs to the room transport"),
    ),
    (doubles.EscapingProvider, "good", ("'../other'", "'/home/agent/x'", "'POST /a/../b'", "'home/../../x'")),
    (doubles.NoPlacementProvider, "no_placement", ("jam_place_session: required by the shared cell",)),
    (
        doubles.NoContinuityHooksProvider,
        "no_continuity",
        ("jam_declare_capture: required", "jam_declare_activation: required", "jam_accepts_version: required"),
    ),
    (doubles.NoCredentialHookProvider, "no_credential", ("jam_check_credentials: required",)),
    (doubles.ColdProvider, "good", ("must not need a sandbox yet",)),
    (dict, "good", ("has no api_version",)),
    (object, "good", ("has no api_version",)),
)


@pytest.mark.guarantee("CAP-6", "PLUG-1")
@pytest.mark.parametrize(("kind", "name", "words"), BAD, ids=[kind.__name__ for kind, _, _ in BAD])
async def test_every_fault_is_listed_and_the_plugin_is_not_used(kind: type, name: str, words: tuple[str, ...]) -> None:
    """A bad plugin is reported with each of its faults; the good one beside it goes on."""
    plugins = manager()
    report = await plugins.add(name, kind(), distribution="doubles", version="1")
    assert report.state == ("incompatible" if kind is doubles.OtherInterfaceProvider else "broken")
    for word in words:
        assert any(word in violation for violation in report.violations), (word, report.violations)
    assert not report.finding().ok
    other = await plugins.add("managed_only", doubles.ManagedOnlyProvider())
    assert other.state == "loaded"
    assert plugins.table().providers() == ("managed_only",)


@pytest.mark.guarantee("CAP-6")
async def test_a_hang_costs_one_limit_and_not_one_for_each_cell() -> None:
    """After the first hang the plugin is not called any more, so validation ends soon."""
    began = anyio.current_time()
    report = await report_on(doubles.HangingProvider())
    assert any("not called, because the provider is disabled" in violation for violation in report.violations)
    assert anyio.current_time() - began < 1.5


async def test_a_name_is_taken_once() -> None:
    """The second plugin of a name is refused, and the first stays."""
    plugins = manager()
    first = await plugins.add("good", doubles.GoodProvider())
    second = await plugins.add("good", doubles.GoodProvider())
    assert (first.state, second.state) == ("loaded", "broken")
    assert plugins.names() == ("good",)
