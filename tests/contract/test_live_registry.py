"""Live tests are in one list, which every distribution has a part of; the decisive gates are among them by name (LIVE-1, LIVE-2)."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from jamcore.testing.live import LIST, SWITCH, BadListError, problems, read, registry
from jamcore.testing.live_page import PAGE, render

GATES = {
    "guest-boundary": "the guest cannot escape its boundary",
    "network-denial": "organisation network denial is authoritative",
    "stock-topologies": "stock Codex in Shared and Dedicated topology",
    "sandbox-recreation": "Dedicated Codex resumes after sandbox recreation",
    "golden-path": "golden path of a private and a public repository with clean-up",
    "packaged-daemon": "the packaged daemon brings up an ordinary room and resumes after restart",
}
"""The six decisive gates by name (LIVE-2)."""

ENTRY = """
[[live]]
name = "moon"
test = "test_moon.py::{test}"
opt_in = "JAM_LIVE_MOON"
needs = [{needs}]
program = "a rocket"
account = "none"
proves = "that one can go there"
ran = "never"
"""
HEAD = "import os\nimport pytest\n"


@pytest.mark.guarantee("LIVE-1")
def test_every_live_test_is_registered_and_every_entry_is_a_live_test(root: Path) -> None:
    """Read from the source of all tests of the workspace: nothing is live, or reads what live tests read, outside the one list."""
    assert problems(root) == ()
    assert registry(root)


@pytest.mark.guarantee("LIVE-2")
def test_the_six_decisive_gates_exist(root: Path) -> None:
    """Each by its name, each once or more, each with two switches."""
    entries = registry(root)
    assert {entry.gate for entry in entries if entry.gate} == set(GATES)
    assert [entry.nodeid for entry in entries if SWITCH in entry.opt_in] == []
    for entry in entries:
        assert entry.opt_in in (root / entry.nodeid.partition("::")[0]).read_text(encoding="utf-8"), entry


@pytest.mark.guarantee("LIVE-2")
def test_every_provider_distribution_has_one_of_its_own(root: Path) -> None:
    """A plugin registers its own, in its own tests, for a provider that its own metadata offers."""
    entries = registry(root)
    projects = {path.parent: tomllib.loads(path.read_text(encoding="utf-8")) for path in root.glob("plugins/*/pyproject.toml")}
    assert projects
    for place, project in projects.items():
        own = [entry for entry in entries if entry.distribution == project["project"]["name"]]
        assert own, place
        assert {Path(entry.at) for entry in own} == {place.relative_to(root) / "tests"}
        offered = set(project["project"]["entry-points"]["jam.providers"])
        missing = offered - {entry.provider for entry in own if entry.account != "none"}
        assert not missing, f"{place.name}: no live test with a real account of {', '.join(sorted(missing))}"


@pytest.mark.guarantee("LIVE-1")
def test_the_page_is_the_list(root: Path) -> None:
    """docs/live-tests.md is made from it; `make guarantees` makes it anew."""
    assert (root / PAGE).read_text(encoding="utf-8") == render(registry(root))


@pytest.mark.guarantee("LIVE-1")
def test_no_live_test_runs_in_ci(root: Path) -> None:
    """Whatever switches the person has set who starts it: they are forgotten before the first test."""
    lines = (root / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    [forgets] = [line for line in lines if "JAM_LIVE_" in line]
    assert lines.index(forgets) < next(number for number, line in enumerate(lines) if line.startswith("make test"))
    switches = {"PATH": os.defpath, SWITCH: "1", "JAM_LIVE_MOON": "1"}
    for environment in (switches, {"PATH": os.defpath}):
        command = ("bash", "-euc", f"{forgets}\nexport OTHER=kept; env | grep JAM_LIVE_ || echo $OTHER")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=20)
        assert done.stdout == "kept\n"


# ------------------------------------------------------------------------------------------------------ what the scan sees


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """The directory of the tests of a small workspace."""
    place = tmp_path / "tests"
    place.mkdir()
    return place


def listed(place: Path, test: str = "test_it", needs: str = "") -> None:
    """Write a list with one entry."""
    (place / LIST).write_text('distribution = "moon"\n' + ENTRY.format(test=test, needs=needs))


UNREGISTERED = {
    "a decorator": "@pytest.mark.live('JAM_LIVE_MOON')\ndef test_it(): pass\n",
    "a module": "pytestmark = pytest.mark.live('JAM_LIVE_MOON')\ndef test_it(): pass\n",
    "one of several of a module": "pytestmark = [pytest.mark.anyio, pytest.mark.live('JAM_LIVE_MOON')]\ndef test_it(): pass\n",
    "a class": "@pytest.mark.live('JAM_LIVE_MOON')\nclass TestMoon:\n    def test_it(self): pass\n",
    "a class's own marks": "class TestMoon:\n    pytestmark = [pytest.mark.live('JAM_LIVE_MOON')]\n    def test_it(self): pass\n",
    "one parameter": "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.live('JAM_LIVE_MOON'))])\ndef test_it(x): pass\n",
    "another name of the mark": "moon = pytest.mark.live('JAM_LIVE_MOON')\n@moon\ndef test_it(): pass\n",
    "the mark alone": "from pytest import mark\n@mark.live('JAM_LIVE_MOON')\ndef test_it(): pass\n",
    "a mark without a switch": "@pytest.mark.live\ndef test_it(): pass\n",
    "a read of a switch": "def test_it():\n    if os.environ.get('JAM_LIVE_MOON'): pass\n",
    "a read by a name": "KEY = 'MOON_API_KEY'\ndef test_it(): os.environ[KEY]\n",
    "a question for a key": "def test_it(): assert 'MOON_TOKEN' in os.environ\n",
    "another way to read": "def test_it(): os.getenv('MOON_SECRET')\n",
    "a login in the person's home": "from pathlib import Path\ndef test_it(): (Path.home() / '.moon' / 'auth.json').read_text()\n",
    "a home by another way": "def test_it(): open(os.path.expanduser('~/.moon/auth.json'))\n",
    "a helper that reads": "def key(): return os.environ['MOON_API_KEY']\n",
}


@pytest.mark.guarantee("LIVE-1")
@pytest.mark.parametrize("code", UNREGISTERED.values(), ids=UNREGISTERED.keys())
def test_an_unregistered_one_is_found(tests: Path, code: str) -> None:
    """Whichever way it says that it is live, or reads what only live tests may read."""
    (tests / "test_moon.py").write_text(HEAD + code)
    (found,) = problems(tests.parent)
    assert found.startswith("tests/test_moon.py")


DISAGREEING = {
    "no such test": ("", "registered, and no such test"),
    "not live": ("def test_it(): pass\n", "its mark says nothing"),
    "another switch": ("@pytest.mark.live('JAM_LIVE_SUN')\ndef test_it(): pass\n", "its mark says JAM_LIVE_SUN"),
    "another need": ("@pytest.mark.live('JAM_LIVE_MOON')\n@pytest.mark.needs('air')\ndef test_it(): pass\n", "it needs air"),
    "a guarantee": ("@pytest.mark.live('JAM_LIVE_MOON')\n@pytest.mark.guarantee('CAP-1')\ndef test_it(): pass\n", "carries CAP-1"),
    "a second test that reads": (
        "@pytest.mark.live('JAM_LIVE_MOON')\ndef test_it(): os.environ['MOON_API_KEY']\ndef test_b(): pass\n",
        "tests/test_moon.py::test_b: its file reads MOON_API_KEY",
    ),
}


@pytest.mark.guarantee("LIVE-1")
@pytest.mark.parametrize(("code", "said"), DISAGREEING.values(), ids=DISAGREEING.keys())
def test_an_entry_that_says_something_else_is_found(tests: Path, code: str, said: str) -> None:
    """The list and the test agree about the switch and the needs, and a live test keeps no guarantee from being proven."""
    listed(tests)
    (tests / "test_moon.py").write_text(HEAD + code)
    assert said in " ".join(problems(tests.parent))


@pytest.mark.guarantee("LIVE-1")
def test_a_registered_one_may_read_what_it_needs(tests: Path) -> None:
    """Its file may, so may a helper beside it where all tests are live; a program of its own is given its environment."""
    listed(tests)
    test = "@pytest.mark.live('JAM_LIVE_MOON')\ndef test_it(): os.environ['MOON_API_KEY']\n"
    (tests / "test_moon.py").write_text(HEAD + test)
    (tests / "helper.py").write_text("import os\nKEY = os.environ.get('MOON_API_KEY')\n")
    assert problems(tests.parent) == ()
    (tests / "test_ordinary.py").write_text("def test_a(): pass\n")
    assert problems(tests.parent) == ("tests/helper.py: reads MOON_API_KEY, and lies in no directory of live tests alone",)
    with (tests / "helper.py").open("a") as file:
        file.write("if __name__ == '__main__': pass\n")
    assert problems(tests.parent) == ()


@pytest.mark.guarantee("LIVE-1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "distribution = 'moon'",
        "distribution = 'moon'\nlive = [{name = 'x'}]",
        "[",
        "distribution = 'moon'\nlive = []\nmore = 1",
    ],
    ids=["empty", "no entries", "half an entry", "no TOML", "something else"],
)
def test_a_list_that_cannot_be_read_is_an_error(tests: Path, text: str) -> None:
    """It is named, and never taken for an empty one."""
    (tests / LIST).write_text(text)
    with pytest.raises(BadListError, match=LIST):
        read(tests / LIST, tests.parent)


@pytest.mark.guarantee("LIVE-1")
def test_two_entries_of_one_name_are_an_error(tests: Path) -> None:
    """A name means one test of a distribution."""
    listed(tests)
    with (tests / LIST).open("a") as file:
        file.write(ENTRY.format(test="test_other", needs=""))
    (tests / "test_moon.py").write_text("")
    with pytest.raises(BadListError, match="registered twice: moon: moon"):
        registry(tests.parent)
