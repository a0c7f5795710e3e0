"""The three choices, the cells, and the one table that answers for them (CAP)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

import pytest

from jamcore.domain.cells import (
    DEDICATED_MANAGED_CELLS,
    FULL_CELLS,
    NEAREST,
    SHARED_CELL,
    Ability,
    Cell,
    CellTable,
    Configuration,
    EngineLacksAbilityError,
    NoSuchCellError,
    Placement,
    UnknownProviderError,
    WorkspaceChoice,
    WorkspaceSource,
)
from jamcore.domain.errors import InvalidInputError

EVERY_CELL = [
    Cell(configuration=configuration, workspace=workspace, placement=placement)
    for configuration, workspace, placement in product(Configuration, WorkspaceSource, Placement)
]
OPTIONAL = (Ability.CLONE, Ability.ENVIRONMENT_FILES)
EVERY_ENGINE = [frozenset(chosen) for count in range(3) for chosen in combinations(OPTIONAL, count)]
PUBLISHED = {"whole": FULL_CELLS, "narrow": DEDICATED_MANAGED_CELLS, "none": frozenset[Cell]()}
TABLE = CellTable(PUBLISHED)


@pytest.mark.guarantee("CAP-2")
def test_the_choices_are_independent() -> None:
    """Two configurations, three workspaces, two placements: twelve combinations, each a different cell."""
    assert len({str(cell) for cell in EVERY_CELL}) == len(set(EVERY_CELL)) == 2 * 3 * 2


@pytest.mark.guarantee("CAP-3")
def test_the_two_published_sets() -> None:
    """Seven: one shared, always managed by Jam in a managed workspace, and six dedicated. Three: those that Jam configures."""
    shared = [cell for cell in FULL_CELLS if cell.placement is Placement.SHARED]
    assert shared == [SHARED_CELL]
    assert (SHARED_CELL.configuration, SHARED_CELL.workspace) == (Configuration.JAM_MANAGED, WorkspaceSource.MANAGED)
    assert len(FULL_CELLS) == 7
    assert len(DEDICATED_MANAGED_CELLS) == 3
    assert all(cell.placement is Placement.DEDICATED for cell in DEDICATED_MANAGED_CELLS)
    assert {cell.workspace for cell in DEDICATED_MANAGED_CELLS} == set(WorkspaceSource)


@pytest.mark.guarantee("CAP-4")
@pytest.mark.parametrize("abilities", EVERY_ENGINE, ids=lambda chosen: "+".join(sorted(chosen)) or "plain")
@pytest.mark.parametrize("provider", ["whole", "narrow", "none"])
def test_every_combination_is_legal_or_refused_by_its_type(provider: str, abilities: frozenset[Ability]) -> None:
    """Legal where the provider has the cell and the engine the abilities; two refusals, told apart, and each names legal neighbours."""
    for cell in EVERY_CELL:
        wanted = set[Ability]()
        if cell.workspace is WorkspaceSource.PRIVATE_HOST_CLONE:
            wanted.add(Ability.CLONE)
        if cell.configuration is Configuration.ENVIRONMENT_FILES:
            wanted.add(Ability.ENVIRONMENT_FILES)
        if cell not in PUBLISHED[provider]:
            with pytest.raises(NoSuchCellError) as unknown:
                TABLE.require(provider, cell, engine="e", abilities=abilities)
            check_nearest(cell, unknown.value.nearest, PUBLISHED[provider])
        elif wanted - abilities:
            with pytest.raises(EngineLacksAbilityError) as lacking:
                TABLE.require(provider, cell, engine="e", abilities=abilities)
            assert lacking.value.missing == tuple(sorted(wanted - abilities))
            check_nearest(cell, lacking.value.nearest, {one for one in PUBLISHED[provider] if one.needs() <= abilities})
        else:
            assert TABLE.require(provider, cell, engine="e", abilities=abilities) == cell


def check_nearest(asked: Cell, named: tuple[str, ...], legal: Iterable[Cell]) -> None:
    """Check that only legal cells are named, as many as there can be, and none that is further away than one that is not named."""
    distances = {str(one): one.distance(asked) for one in legal}
    assert len(named) == len(set(named)) == min(NEAREST, len(distances))
    assert [distances[one] for one in named] == sorted(distances.values())[: len(named)]


@pytest.mark.guarantee("CAP-3")
def test_a_provider_without_cells_cannot_be_sandboxed() -> None:
    """Nothing is nearest to nothing."""
    with pytest.raises(NoSuchCellError) as refused:
        TABLE.require("none", SHARED_CELL, engine="e", abilities=frozenset(Ability))
    assert refused.value.nearest == ()


@pytest.mark.guarantee("CAP-4")
def test_an_unknown_provider_is_told_which_are_known() -> None:
    """A name from outside is cut before it is repeated."""
    with pytest.raises(UnknownProviderError) as refused:
        TABLE.require("x" * 1000, SHARED_CELL, engine="e", abilities=frozenset(Ability))
    assert refused.value.known == ("narrow", "none", "whole")
    assert len(refused.value.provider) == 64


@pytest.mark.guarantee("CAP-5")
def test_the_table_is_read_only_and_in_a_stable_order() -> None:
    """It keeps no reference to what it was made from, and two tables of the same plugins print the same."""
    rows = {"b": set(FULL_CELLS), "a": set(DEDICATED_MANAGED_CELLS)}
    table = CellTable(rows)
    rows["b"].clear()
    rows["c"] = set()
    assert table.rows() == CellTable({"a": DEDICATED_MANAGED_CELLS, "b": FULL_CELLS}).rows()
    assert table.providers() == ("a", "b")
    assert [name for name, _ in table.rows()] == ["a"] * 3 + ["b"] * 7


@pytest.mark.guarantee("CAP-7")
@pytest.mark.parametrize(
    ("source", "path", "complete"),
    [
        (WorkspaceSource.MANAGED, None, True),
        (WorkspaceSource.MANAGED, "/work", False),
        *((source, "/wörk with spaces\n", True) for source in WorkspaceSource if source is not WorkspaceSource.MANAGED),
        *(
            (source, path, False)
            for source in WorkspaceSource
            if source is not WorkspaceSource.MANAGED
            for path in (None, "", "work", "./work", "~/work", "/wo\x00rk")
        ),
    ],
)
def test_a_choice_has_its_path_exactly_when_it_needs_one(source: WorkspaceSource, path: str | None, complete: bool) -> None:
    """Managed takes none; the two others need an absolute one."""
    choice = WorkspaceChoice(source, path)
    if complete:
        choice.require_complete()
        return
    with pytest.raises(InvalidInputError) as refused:
        choice.require_complete()
    assert refused.value.field == "workspace.path"
