"""Limits as data: what is demanded, what an engine holds, and what a stored plan looks like."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from jamcore.domain.errors import InvalidInputError
from jamcore.domain.resources import (
    BOUNDS,
    FIELDS,
    Holding,
    Limit,
    LimitNotHeldError,
    Means,
    demanded,
    limits_in_words,
    require_held,
    resources,
    size,
    with_defaults,
)
from jamcore.domain.sandboxes import Resources
from jamcore.testing.doubles import plans

pytestmark = pytest.mark.guarantee("PLAN-1")

EVERYTHING = Resources(cpus=1.5, memory_bytes=1 << 30, memory_per_process_bytes=1 << 30, processes=100, disk_bytes=1 << 30)
STORED = b'"resources":{"cpus":null,"disk_bytes":null,"memory_bytes":null,"processes":null}'


def test_a_plan_without_limits_reads_as_it_was_stored() -> None:
    """The canonical form of a plan that demands nothing has the four members it always had, and a stored one is the same plan."""
    plan = plans.plan()
    assert STORED in plan.canonical_json()
    assert type(plan).model_validate_json(plan.canonical_json()) == plan


def test_every_limit_has_a_field_and_survives_storing() -> None:
    """Nothing that is demanded is lost on the way through a file."""
    assert set(FIELDS) == set(Limit)
    assert set(FIELDS.values()) == set(Resources.model_fields) == set(BOUNDS)
    assert demanded(EVERYTHING) == tuple(Limit)
    assert demanded(Resources()) == ()
    assert Resources.model_validate_json(EVERYTHING.canonical_json()) == EVERYTHING


@pytest.mark.parametrize("field", FIELDS.values())
def test_what_makes_no_sense_is_no_limit(field: str) -> None:
    """The bounds are the record's own; beyond them, not a number or a negative one is an error."""
    low, high = BOUNDS[field]
    kind = float if field == "cpus" else int
    for good in (low, high):
        Resources.model_validate({field: kind(good)})
    for bad in (low / 2, high * 2, -1, 0, float("nan"), float("inf"), "1"):
        with pytest.raises(ValidationError):
            Resources.model_validate({field: bad})


@pytest.mark.guarantee("CAP-4")
@pytest.mark.parametrize("limit", Limit)
def test_a_limit_that_cannot_hold_is_refused_by_name(limit: Limit) -> None:
    """The refusal says the limit, the means that were tried and what to do; the others are not blamed."""
    holdings = tuple(
        Holding(one, Means.NONE, "no control groups here", "mount them") if one is limit else Holding(one, Means.CGROUP, "group")
        for one in Limit
    )
    with pytest.raises(LimitNotHeldError) as caught:
        require_held(EVERYTHING, holdings, engine="some")
    assert (caught.value.engine, caught.value.limit) == ("some", limit)
    assert (caught.value.tried, caught.value.remedy) == ("no control groups here", "mount them")
    require_held(EVERYTHING.model_copy(update={FIELDS[limit]: None}), holdings, engine="some")
    with pytest.raises(LimitNotHeldError, match="limits no resources"):
        require_held(EVERYTHING, (), engine="some")
    require_held(Resources(), (), engine="some")


def test_defaults_fill_in_what_was_not_asked() -> None:
    """What a person asks for wins, limit by limit."""
    asked = Resources(cpus=1.0)
    assert with_defaults(asked, EVERYTHING) == EVERYTHING.model_copy(update={"cpus": 1.0})
    assert with_defaults(asked, Resources()) == asked


def test_words_become_limits() -> None:
    """Sizes are in powers of 1024 whatever the spelling; nonsense names the option."""
    assert [size(text, field="x") for text in ("1024", "64K", "1.5GiB", "512mb", "2 T")] == [
        1024,
        64 << 10,
        3 << 29,
        512 << 20,
        2 << 40,
    ]
    for bad in ("", "G", "-1G", "1e9", "12Q", "1 0", "9" * 400, "0." + "9" * 400, "9" * 5000):
        with pytest.raises(InvalidInputError):
            size(bad, field="x")
    found = resources(cpus=1.5, memory="1G", memory_per_process="1GiB", pids=100, disk="1073741824")
    assert found == EVERYTHING
    assert resources() == Resources()


@pytest.mark.parametrize(
    ("limit", "asked", "said"),
    [
        ("pids", 1, "must be between 16 and 4194304, not 1"),
        ("pids", 10**400, "must be between 16 and 4194304, not a larger one"),
        ("cpus", 0.0, "must be between 0.01 and 4096, not 0"),
        ("cpus", float("nan"), "must be between 0.01 and 4096, not nan"),
        ("memory", "1", "must be between 64M and 1024T, not 1"),
        ("disk", "9" * 30 + "T", "must be between 16M and 1024T, not a larger one"),
    ],
)
def test_a_limit_out_of_bounds_is_refused_in_the_words_of_limits(limit: str, asked: float | str, said: str) -> None:
    """Whatever number it is, also one that no float holds: by its name, in units that may be written back."""
    with pytest.raises(InvalidInputError) as refused:
        resources(**{limit: asked})  # type: ignore[arg-type] # each has the type of its own limit
    assert (refused.value.field, refused.value.problem) == (limit, said)


def test_limits_read_as_they_were_written() -> None:
    """Whole units where there are any, and nothing for nothing."""
    assert limits_in_words(EVERYTHING) == "cpus 1.5, memory 1G, memory-per-process 1G, pids 100, disk 1G"
    assert limits_in_words(Resources(memory_bytes=1536 << 20)) == "memory 1.5G"
    assert limits_in_words(Resources()) == ""


@pytest.mark.guarantee("CAP-4")
def test_an_engine_without_the_ability_gets_no_plan_with_limits() -> None:
    """The plan is refused before anything is asked of the engine; without limits it is made."""
    engine = plans.ALL_ABLE
    without = type(engine)(name=engine.name, isolation=engine.isolation, abilities=frozenset())
    assert plans.plan(engine=without).resources == Resources()
    limited = plans.inputs(resources=Resources(processes=100))
    assert plans.plan(limited).resources.processes == 100
    with pytest.raises(LimitNotHeldError):
        plans.plan(limited, engine=without)
