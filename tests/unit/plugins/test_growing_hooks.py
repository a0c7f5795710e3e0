"""How the hooks grow: a worked example of a later version of the interface, with plugins that were built for this one (PLUG-1).

The later version gives ``jam_prepare`` an argument more, ``reason``; in ``jam_place_session`` the argument ``request`` will go, and
``seats`` takes its place; ``jam_accepts_version`` will go as a whole. All three are said in the specification, by pluggy's own means.
"""

from __future__ import annotations

import pytest

from jamcore.api import (
    PlacementAnswer,
    PlacementRequest,
    PlanContext,
    Preparation,
    PreparedFile,
    hookimpl,
)
from jamcore.domain.cells import SHARED_CELL, Ability
from jamcore.domain.provider_rules import plan_context
from jamcore.plugins.hookspecs import ProviderSpecs, hookspec
from jamcore.plugins.manager import ProviderManager
from jamcore.plugins.provider import ProviderHooks
from jamcore.testing.doubles.providers import GOOD, GoodProvider, ManagedOnlyProvider

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("PLUG-1")]

REQUEST_GOES = DeprecationWarning("take `seats` instead; it goes in 2.0")
VERSIONS_GO = DeprecationWarning("nobody asks it any more; it goes in 2.0")


class NextSpecs(ProviderSpecs):
    """The hooks of the later version."""

    @hookspec(firstresult=True)
    def jam_prepare(self, context: PlanContext, reason: str) -> Preparation:  # type: ignore[override]
        """Name the files; ``reason`` says why the program starts."""
        raise NotImplementedError

    @hookspec(firstresult=True, warn_on_impl_args={"request": REQUEST_GOES})
    def jam_place_session(self, request: PlacementRequest, seats: int) -> PlacementAnswer:  # type: ignore[override]
        """Say whether a session fits beside ``seats`` others."""
        raise NotImplementedError

    @hookspec(firstresult=True, warn_on_impl=VERSIONS_GO)
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Say whether a version may resume what another wrote."""
        raise NotImplementedError


class NextHooks(ProviderHooks):
    """What calls them: every argument, the old and the new."""

    async def prepare(self, context: PlanContext) -> Preparation:
        """Call with the new argument."""
        return await self._decide("jam_prepare", Preparation, context=context, reason="resume")

    async def place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Call with both."""
        return await self._decide("jam_place_session", PlacementAnswer, request=request, seats=request.seats)


class OlderProvider(GoodProvider):
    """Built for this version: knows no ``reason`` and no ``seats``."""

    @hookimpl
    def jam_prepare(self, context: PlanContext) -> Preparation:  # type: ignore[override]
        """Prepare a file that names the home."""
        return Preparation(files=(PreparedFile(path="home/config.toml", content=context.home),))


class NewerProvider(ManagedOnlyProvider):
    """Built for the later version; takes what is new and nothing that will go."""

    @hookimpl
    def jam_describe_provider(self) -> object:  # type: ignore[override]
        """Describe."""
        return GOOD.model_copy(update={"name": "newer", "continuity": False, "credential": None})

    @hookimpl
    def jam_prepare(self, reason: str) -> Preparation:
        """Prepare a file that names the reason."""
        return Preparation(files=(PreparedFile(path="home/config.toml", content=reason),))

    @hookimpl
    def jam_place_session(self, seats: int) -> PlacementAnswer:
        """Take up to two sessions."""
        return PlacementAnswer(accepted=seats < 2, own_process=False)


def later() -> ProviderManager:
    return ProviderManager(specs=NextSpecs, facade=NextHooks)


async def test_an_implementation_without_a_new_argument_works_as_before() -> None:
    """It is loaded without a violation, and gets the arguments that it names, whatever else the caller gives."""
    plugins, context = later(), plan_context("good", SHARED_CELL, frozenset(Ability))
    with pytest.warns(DeprecationWarning, match="goes in 2.0"):
        report = await plugins.add("good", OlderProvider())
    assert (report.state, report.violations) == ("loaded", ())
    assert (await plugins.provider("good").prepare(context)).files[0].content == context.home
    assert (await plugins.provider("good").place_session(PlacementRequest(seats=3))).accepted


async def test_an_implementation_that_takes_the_new_argument_gets_it() -> None:
    """Beside the older one, in the same daemon."""
    plugins, context = later(), plan_context("newer", SHARED_CELL, frozenset(Ability))
    report = await plugins.add("newer", NewerProvider())
    assert (report.state, report.violations) == ("loaded", ())
    assert (await plugins.provider("newer").prepare(context)).files[0].content == "resume"
    assert not (await plugins.provider("newer").place_session(PlacementRequest(seats=2))).accepted


async def test_what_will_go_is_loaded_with_a_warning_that_is_listed() -> None:
    """The hook, the argument and the author's way out; `jam plugin ls` and the doctor show them, and the plugin works."""
    plugins = later()
    with pytest.warns(DeprecationWarning, match="it goes in 2.0"):
        report = await plugins.add("good", OlderProvider())
    assert report.state == "loaded"
    assert report.warnings == (
        "jam_accepts_version: nobody asks it any more; it goes in 2.0",
        "jam_place_session, argument request: take `seats` instead; it goes in 2.0",
    )
    assert report.view(None).warnings == report.warnings
    assert report.finding().ok
    assert all(warning in report.finding().detail for warning in report.warnings)


async def test_what_stays_is_loaded_without_a_warning() -> None:
    """Neither a plugin that left the old ways behind, nor any under this version, whose specifications deprecate nothing."""
    assert (await later().add("newer", NewerProvider())).warnings == ()
    assert (await ProviderManager().add("good", OlderProvider())).warnings == ()
