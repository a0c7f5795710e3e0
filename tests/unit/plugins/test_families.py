"""Providers by configuration: a table makes one more provider, with all checks, and a bad one disables itself alone (PLUG-1)."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

import pytest

from jamcore.domain.cells import SHARED_CELL, Ability
from jamcore.domain.plugins import NO_BLOCKS, Block, PluginKind, blocked_by_setting
from jamcore.domain.provider_rules import plan_context
from jamcore.domain.providers import PluginFailedError
from jamcore.plugins.families import FAMILIES
from jamcore.plugins.manager import PROVIDERS, ProviderManager
from jamcore.testing.doubles.providers import GOOD as GOOD_PROVIDER
from tests.unit.plugins.test_provider_hooks import TurningProvider

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("PLUG-1")]

MODULE = """
from jamcore.domain.errors import InvalidInputError
from jamcore.testing.doubles import providers as doubles


class Provider(doubles.GoodProvider):
    def __init__(self, name):
        self.description = doubles.GOOD.model_copy(update={"name": name})


class Family:
    def jam_family(self):
        return "made"

    def provider(self, name, table):
        if "argv" not in table:
            raise InvalidInputError(field="argv", problem="is missing")
        if "other_name" in table:
            return Provider(table["other_name"])
        if "exits" in table:
            raise SystemExit(3)
        assert "family" not in table
        return Provider(name)


class Liar(Family):
    def jam_family(self):
        return "another"


class Installed(Provider):
    def __init__(self):
        super().__init__("installed")
"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[list[metadata.EntryPoint]]:
    """The entry points of a distribution that brings two families and a provider."""
    module = f"jamfamily{abs(hash(request.node.name)) % 10**8}"
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(MODULE))
    info = tmp_path / f"{module}-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 2.5\n")
    families = f"[{FAMILIES}]\nmade = {module}:Family\nliar = {module}:Liar\ngone = {module}:Gone\n"
    (info / "entry_points.txt").write_text(f"{families}\n[{PROVIDERS}]\ninstalled = {module}:Installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield [entry for dist in metadata.distributions(path=[str(tmp_path)]) for entry in dist.entry_points]
    sys.modules.pop(module, None)


GOOD = {"family": "made", "argv": ["x"]}


async def test_a_table_is_a_provider_of_its_name(found: list[metadata.EntryPoint]) -> None:
    """Two tables of one family are two providers beside the installed one; the report names the distribution that made them."""
    manager = ProviderManager()
    await manager.load(found=found, tables={"two": GOOD, "one": GOOD})
    assert manager.names() == ("installed", "one", "two")
    assert manager.provider("one").description.name == "one"
    report = manager.report("one")
    assert (report.state, report.version, report.configured) == ("loaded", "2.5", True)
    assert report.distribution.startswith("jamfamily")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"family": "made"}, "providers.bad.argv: is missing"),
        ({"family": "unknown"}, "no installed distribution brings the family 'unknown'"),
        ({"family": 7}, "providers.bad.family: it is missing, or is no text"),
        ({"argv": ["x"]}, "providers.bad.family: it is missing, or is no text"),
        (7, "providers.bad: it is no table"),
        (("family", "made"), "providers.bad: it is no table"),
        ({**GOOD, "other_name": "else"}, "describes itself as 'else' but is installed as 'bad'"),
        ({**GOOD, "exits": True}, "SystemExit: 3"),
        ({**GOOD, "family": "liar"}, "calls itself 'another' but is installed as 'liar'"),
        ({**GOOD, "family": "gone"}, "AttributeError"),
    ],
    ids=[
        "a bad key",
        "an unknown family",
        "no text",
        "no family",
        "no table",
        "a list",
        "another name",
        "an exit",
        "a liar",
        "a family that is not there",
    ],
)
async def test_a_bad_table_disables_its_own_provider(found: list[metadata.EntryPoint], table: object, words: str) -> None:
    """The report says what is wrong, with the key where one is to blame, and where to correct it; all others are loaded."""
    manager = ProviderManager()
    await manager.load(found=found, tables={"bad": table, "fine": GOOD})
    assert manager.names() == ("fine", "installed")
    report = manager.report("bad")
    assert (report.state, report.configured) == ("broken", True)
    assert words in " ".join(report.violations)
    assert report.finding().hint == "Correct the table [providers.bad] in config.toml."


async def test_families_are_listed_with_what_became_of_each(found: list[metadata.EntryPoint]) -> None:
    """Also where no table names one: a person sees what is installed and what is wrong with it. None is taken for a provider."""
    manager = ProviderManager()
    await manager.load(found=found)
    families = {report.name: report for report in manager.reports() if report.kind is PluginKind.FAMILY}
    assert {name: report.state for name, report in families.items()} == {"gone": "broken", "liar": "broken", "made": "loaded"}
    assert "calls itself 'another'" in families["liar"].violations[0]
    assert "AttributeError" in families["gone"].violations[0]
    assert families["gone"].hint().startswith("Upgrade or uninstall the distribution")
    assert families["made"].title == "made (family)"
    assert manager.names() == ("installed",)


async def test_a_provider_that_is_disabled_says_nothing_about_a_family_of_its_name(found: list[metadata.EntryPoint]) -> None:
    """One table may well be called as its family is; what the family can do has not changed."""
    turning = TurningProvider()
    turning.description = GOOD_PROVIDER.model_copy(update={"name": "made"})  # type: ignore[misc]
    manager = ProviderManager(hook_limit_s=0.3)
    await manager.load(found=[entry for entry in found if entry.name == "made"])
    await manager.add("made", turning)
    turning.turned = True
    with pytest.raises(PluginFailedError):
        await manager.provider("made").prepare(plan_context("made", SHARED_CELL, frozenset(Ability)))
    assert {report.kind: report.state for report in manager.reports()} == {
        PluginKind.FAMILY: "loaded",
        PluginKind.PROVIDER: "disabled",
    }
    turning.hang.release.set()


async def test_a_blocked_family_is_not_imported_and_its_tables_say_so(found: list[metadata.EntryPoint]) -> None:
    """The table's provider is refused with what undoes the block."""
    module = next(entry.value.partition(":")[0] for entry in found)
    manager = ProviderManager()
    entries = [entry for entry in found if entry.group == FAMILIES]
    await manager.load(found=entries, tables={"one": GOOD}, blocked=blocked_by_setting(("made", "liar", "gone")))
    assert {report.name: report.state for report in manager.reports()} == {
        "gone": "blocked",
        "liar": "blocked",
        "made": "blocked",
        "one": "broken",
    }
    said = "the family 'made' is blocked; to undo it: take made out of the setting blocked_plugins"
    assert manager.report("one").violations == (said,)
    assert module not in sys.modules


@pytest.mark.parametrize("name", ["bad name!", "Bad", "", "x" * 33])
async def test_a_table_of_a_bad_name_disables_its_own_provider(found: list[metadata.EntryPoint], name: str) -> None:
    """Nobody could ask for a provider of such a name; all others are loaded."""
    manager = ProviderManager()
    await manager.load(found=found, tables={name: GOOD, "fine": GOOD})
    assert manager.names() == ("fine", "installed")
    assert manager.report(name).state == "broken"
    assert "is not a lower-case identifier" in manager.report(name).violations[0]


@pytest.mark.parametrize("blocked", [NO_BLOCKS, blocked_by_setting({"installed"})], ids=["loaded", "blocked"])
@pytest.mark.parametrize("table", [GOOD, 7], ids=["a table", "no table"])
async def test_an_installed_name_cannot_be_taken(
    found: list[metadata.EntryPoint], blocked: Mapping[str, Block], table: object
) -> None:
    """Not even one that is blocked: whoever asks for it by name means the distribution's."""
    manager = ProviderManager()
    await manager.load(found=found, tables={"installed": table}, blocked=blocked)
    last = manager.reports()[-1]
    assert last.configured
    assert last.state == ("blocked" if blocked else "broken")
    assert manager.names() == (() if blocked else ("installed",))


async def test_a_blocked_table_is_not_made(found: list[metadata.EntryPoint]) -> None:
    """Its family is not even imported."""
    manager = ProviderManager()
    await manager.load(found=found, tables={"one": {**GOOD, "family": "gone"}}, blocked=blocked_by_setting({"one"}))
    assert manager.report("one").state == "blocked"
    assert manager.report("one").finding().ok
