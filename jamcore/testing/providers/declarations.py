"""What a plugin declares without its program: cells, contribution, placement, readiness, versions, the pin."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import ClassVar

import pytest

from jamcore.domain.cells import Ability, Cell, Placement
from jamcore.domain.plan import PlanContext, PlanContribution
from jamcore.domain.providers import CredentialView, PlacementRequest
from jamcore.plugins.manager import PROVIDERS
from jamcore.plugins.provider import ProviderHooks
from jamcore.testing.proof import NOT_CLAIMED

NOBODY = CredentialView(present=False, source="")
SOMEBODY = CredentialView(present=True, source="environment")
Versions = Mapping[tuple[str, str], bool]
"""Which version may resume what another has captured: pairs of the captured and the current one, and whether it may."""


@pytest.mark.anyio
class ProviderDeclarations:
    """What is declared.

    Attributes:
        cells: What the plugin supports.
        seats: How many sessions it takes on one shared host; 0 where it has no shared cell.
        hints: Parts of the hint when there is no key; none of them: it is ready without one.
        platforms: For which machines the pin has a digest.
        versions: Pairs of versions, and which of them the plugin accepts.
    """

    cells: ClassVar[frozenset[Cell]]
    seats: ClassVar[int]
    hints: ClassVar[tuple[str, ...]]
    platforms: ClassVar[tuple[str, ...]]
    versions: ClassVar[Versions] = MappingProxyType({})

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of each pair of versions."""
        if "versions_of" in metafunc.fixturenames:
            metafunc.parametrize("versions_of", [pytest.param(pair, id=f"{pair[0]} by {pair[1]}") for pair in self.versions])

    @pytest.fixture
    def hooks(self, provider_hooks: ProviderHooks) -> ProviderHooks:
        """The plugin's hooks, as a daemon has them."""
        return provider_hooks

    def look_at_the_contribution(self, contribution: PlanContribution) -> None:
        """Look at what this provider contributes."""

    async def test_it_is_what_its_entry_point_names(self, hooks: ProviderHooks) -> None:
        """What is installed under its name is what is tested, and it says the same of itself at each call.

        A plugin that is tested as one object and installed as another is not tested.
        """
        [entry] = entry_points(group=PROVIDERS, name=hooks.name)
        described = entry.load()().jam_describe_provider()
        assert described == hooks.description == await hooks.describe()
        assert described.name == hooks.name

    @pytest.mark.guarantee("CAP-3", "CAP-8")
    async def test_its_cells_are_published(self, hooks: ProviderHooks) -> None:
        """Exactly these, and no more: a cell that is published and was never meant fails at somebody's first session.

        People choose from what is published.
        """
        assert hooks.description.cells == self.cells

    @pytest.mark.guarantee("PLAN-5")
    async def test_the_contribution_is_the_same_for_every_cell(self, hooks: ProviderHooks) -> None:
        """No cell panics and none differs, whatever the engine can do: where the files come from is not the provider's business.

        A provider that knows about workspaces or engines has to be changed with each new one.
        """
        answers = [
            await hooks.contribute_plan(context_of(cell, abilities))
            for cell in sorted(hooks.description.cells, key=str)
            for abilities in (frozenset[Ability](), frozenset(Ability))
        ]
        assert {answer.canonical_json() for answer in answers} == {answers[0].canonical_json()}
        self.look_at_the_contribution(answers[0])

    @pytest.mark.guarantee("SHARE-5")
    async def test_a_shared_host_takes_a_bounded_number_of_sessions(self, hooks: ProviderHooks) -> None:
        """In one process or one for each, as it is described; and a refusal with a reason when it is full.

        Without a bound the last session to come takes the memory of all.
        """
        if not any(cell.placement is Placement.SHARED for cell in hooks.description.cells):
            pytest.skip(f"{NOT_CLAIMED}{hooks.name} has no shared cell")
        last = await hooks.place_session(PlacementRequest(seats=self.seats - 1))
        assert (last.accepted, last.own_process) == (True, not hooks.description.threads_share_process)
        full = await hooks.place_session(PlacementRequest(seats=self.seats))
        assert not full.accepted
        assert full.reason

    @pytest.mark.guarantee("ENV-3")
    async def test_readiness_is_about_the_key_alone(self, hooks: ProviderHooks) -> None:
        """A missing key is a reason and a hint that says what to set; the plugin never sees its text.

        It is asked before anything starts; afterwards a missing key is a turn that failed with the vendor's words.
        """
        assert (await hooks.check_credentials(SOMEBODY)).ready
        missing = await hooks.check_credentials(NOBODY)
        assert missing.ready is not bool(self.hints)
        assert [hint for hint in self.hints if hint not in missing.hint] == []

    async def test_the_pin_is_whole(self, hooks: ProviderHooks) -> None:
        """There is a digest for each machine, and the program is among what may be executed, or is unpacked by something that is.

        A pin without a digest installs whatever a registry gives.
        """
        toolchain = hooks.description.toolchain
        if toolchain is None:
            pytest.skip(f"{NOT_CLAIMED}{hooks.name} pins no program")
        assert toolchain.platforms() == self.platforms
        first = toolchain.unpack.command[0] if toolchain.unpack else toolchain.program
        assert first in toolchain.executables

    @pytest.mark.guarantee("CONT-7")
    async def test_which_version_may_resume_which(self, hooks: ProviderHooks, versions_of: tuple[str, str]) -> None:
        """What was measured, or follows from what a vendor promises of its numbers; never something newer, never a guess.

        A conversation that an older program wrote and a newer one misreads is lost without a word.
        """
        captured, current = versions_of
        assert await hooks.accepts_version(captured, current) is self.versions[versions_of]


def context_of(cell: Cell, abilities: frozenset[Ability]) -> PlanContext:
    """Return what the core tells a plugin."""
    return PlanContext(
        cell=cell,
        state_root="/jam/state/it",
        tools_root="/jam/tools/it",
        home="/home/agent",
        relay_url="http://127.0.0.1:8790",
        abilities=abilities,
    )
