"""``jam plugin new``: what it makes passes at once, and a name that cannot be is refused before anything is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jamcore.domain.errors import ConflictError, InvalidInputError
from jamcore.testing.skeleton.examples import EXAMPLES, directory
from jamcore.testing.skeleton.making import Kind, files_of, made_by_tools, make

TOOLS = (("ruff", "check", "--no-cache", "."), ("ruff", "format", "--no-cache", "--check", "."), ("mypy", "--no-incremental"))
NAMES = ("x", "my_agent", "a_name_of_thirty_two_characters_")


def run(*argv: str, cwd: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a module of Python to its end."""
    environment = {**os.environ, **({"PYTHONPATH": str(site)} if site else {})}
    command = [sys.executable, "-P", "-m", *argv]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.guarantee("KIT-1")
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_skeleton_is_left(kind: Kind, name: str) -> None:
    """Neither in a path nor in a file stands the name that the skeleton has."""
    files = dict(files_of(kind, name))
    assert f"src/jam_{name}/plugin.py" in files
    assert [path for path, content in files.items() if "acme" in f"{path} {content}".lower()] == []


@pytest.mark.guarantee("KIT-1")
@pytest.mark.slow
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_made_is_in_good_style_and_typed(tmp_path: Path, kind: Kind, name: str) -> None:
    """By the settings that it brings along, whatever its name is."""
    place = make(kind, name, tmp_path / "it")
    for tool in TOOLS if name == NAMES[1] else TOOLS[:2]:
        done = run(*tool, cwd=place)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.guarantee("KIT-1")
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", Kind)
def test_what_is_made_passes_the_suite_as_it_is(tmp_path: Path, kind: Kind) -> None:
    """Built as a wheel, installed, and checked by the command that its author is told.

    Nothing fails, and nothing is skipped but what is not claimed.
    """
    place, site = make(kind, "my_thing", tmp_path / "it"), tmp_path / "site"
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--root-user-action=ignore")
    done = run("pip", "install", "--quiet", *options, "--target", str(site), ".", cwd=place)
    assert done.returncode == 0, done.stderr
    done = run("jamcore.testing.check", "--json", ".", cwd=place, site=site)
    report = json.loads(done.stdout)
    assert [each for each in report["checks"] if each["outcome"] in {"failed", "known failure"}] == []
    assert done.returncode == 0, done.stderr
    assert report["counts"]["passed"] > 15
    assert all("TOX" in each["detail"] or "tox" in each["detail"] for each in report["checks"] if each["outcome"] == "skipped")


@pytest.mark.parametrize("name", ["", "Upper", "with-hyphen", "1st", "../x", "class", "match", "x" * 33])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing is written."""
    with pytest.raises(InvalidInputError):
        make(Kind.PROVIDER, name, tmp_path / "it")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["bubblewrap", "local"])
def test_the_name_of_an_installed_plugin_is_refused(tmp_path: Path, name: str) -> None:
    """Of whatever kind it is: two plugins of one name are both disabled."""
    with pytest.raises(ConflictError):
        make(Kind.PROVIDER, name, tmp_path / "it")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """Also an empty one, and one that cannot be finished leaves nothing behind."""
    place = tmp_path / "it"
    place.mkdir()
    with pytest.raises(ConflictError):
        make(Kind.PROVIDER, "my_agent", place)
    assert list(place.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_the_command_says_where_it_is_and_what_is_next(tmp_path: Path) -> None:
    """On standard output; as one document with --json; a refusal has the status of every command's."""
    done = run("jamcore.testing.skeleton", "my_agent", cwd=tmp_path)
    assert done.returncode == 0
    assert f"cd {tmp_path / 'jam-my-agent'}" in done.stdout
    again = run("jamcore.testing.skeleton", "my_agent", "--json", cwd=tmp_path)
    assert (again.returncode, json.loads(again.stdout)["error"]["code"]) == (3, "conflict.changed_record")
    other = run("jamcore.testing.skeleton", "other", "--json", "--directory", "there", cwd=tmp_path)
    assert json.loads(other.stdout) == {"name": "other", "kind": "provider", "directory": str(tmp_path / "there")}


@pytest.mark.guarantee("KIT-1")
@pytest.mark.parametrize("kind", Kind)
def test_the_examples_are_what_is_made(kind: Kind) -> None:
    """What CI builds as wheels and checks in a clean environment is what an author gets; `make guarantees` makes it anew."""
    place = directory(Path(__file__).parents[3], kind)
    kept = {
        str(relative): path.read_text()
        for path in place.rglob("*")
        if path.is_file() and not made_by_tools(relative := path.relative_to(place))
    }
    assert kept == dict(files_of(kind, EXAMPLES[kind]))


LEFT = (
    "src/jam_x/__pycache__/plugin.cpython-311.pyc",
    ".mypy_cache/x.json",
    ".hypothesis/unicode_data/x",
    ".coverage",
    ".venv/pyvenv.cfg",
    ".tox/py311/log",
    "build/lib/jam_x/plugin.py",
    "dist/x.whl",
    "src/jam_x.egg-info/PKG-INFO",
)


@pytest.mark.parametrize("left", LEFT)
def test_what_a_tool_left_is_no_part_of_it(left: str) -> None:
    """Who installs an example in place, or runs its tests there, changes nothing of it."""
    assert made_by_tools(Path(left))
