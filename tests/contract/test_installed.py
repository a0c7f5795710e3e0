"""What is tested is what is shipped: under tox the modules come from built wheels, and the core has no plugin beside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from importlib.metadata import entry_points, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import jamcore

TOX_ENV = os.environ.get("TOX_ENV_NAME", "")


@pytest.mark.skipif(not TOX_ENV.startswith("core-"), reason="runs in tox -e core-…: elsewhere the core is the working tree")
@pytest.mark.guarantee("KIT-2")
def test_the_core_comes_from_its_wheel_alone() -> None:
    """The core under test lies in site-packages, and no provider plugin is installed."""
    assert "site-packages" in Path(jamcore.__file__).parts
    assert list(entry_points(group="jam.providers")) == []


@pytest.mark.skipif(not TOX_ENV.startswith("core-"), reason="runs in tox -e core-…: elsewhere every plugin is installed")
@pytest.mark.guarantee("KIT-2")
def test_every_test_of_the_core_can_be_collected_without_a_plugin(root: Path) -> None:
    """Whatever needs a plugin says so by a need and is skipped by its name; nothing fails for want of one."""
    argv = (
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-c",
        str(root / "pyproject.toml"),
        "--rootdir",
        str(root),
        "-q",
        "--collect-only",
        ".",
    )
    done = subprocess.run(
        (*argv, "-p", "no:cacheprovider"), cwd=root / "tests", capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.guarantee("KIT-2")
def test_no_plugin_depends_on_another() -> None:
    """A plugin's distribution needs the core, never another plugin."""
    for plugin in {entry.dist.name for entry in entry_points(group="jam.providers") if entry.dist}:
        assert [need for need in requires(plugin) or () if need.startswith("jam-")] == []


@pytest.mark.guarantee("KIT-2", "PLUG-2")
def test_no_plugin_of_the_workspace_asks_for_another(root: Path) -> None:
    """As their metadata says it, installed or not, in every extra: the core and what is nobody's plugin."""
    projects = [
        tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in sorted(root.glob("plugins/*/pyproject.toml"))
    ]
    names = {canonicalize_name(project["name"]) for project in projects}
    assert names
    for project in projects:
        wanted = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
        needed = {canonicalize_name(Requirement(need).name) for need in wanted}
        assert "jamcore" in needed
        assert needed & names == set(), project["name"]


@pytest.mark.guarantee("KIT-2")
def test_tox_has_an_environment_for_every_plugin(root: Path) -> None:
    """Its wheel and the core's are built for it, its tests run, it is listed; and the live tests of all run in one of their own."""
    tox = (root / "tox.ini").read_text(encoding="utf-8")
    settings = ConfigParser(interpolation=None)
    settings.read_string(tox)
    for plugin in sorted(path.parent.name for path in root.glob("plugins/*/pyproject.toml")):
        [section] = [settings[name] for name in settings.sections() if name.startswith("testenv:plugin-{")]
        assert plugin in re.findall(r"\w+", section.name.partition("{")[2].partition("}")[0])
        assert plugin in re.findall(r"\w+", settings["tox"]["env_list"].partition("plugin-{")[2].partition("}")[0])
        for setting in ("package_env", "wheel_build_env", "change_dir", "commands"):
            assert re.search(rf"^{plugin}: .*\b{plugin}", section[setting].strip(), re.MULTILINE), (plugin, setting)
        for environment in (f".pkg-{plugin}", f".pkg-{plugin}-wheel"):
            assert settings[f"testenv:{environment}"]["package_root"] == f"{{tox_root}}/plugins/{plugin}"
        for environment in ("live", "types", "imports", "docs", "dev"):
            assert f"-e {{tox_root}}/plugins/{plugin}\n" in settings[f"testenv:{environment}"]["deps"] + "\n"
        assert f"plugins/{plugin}/tests" in settings["testenv:live"]["commands"]


def test_no_conftest_at_the_root(root: Path) -> None:
    """A conftest beside the package would put the working tree in front of the wheel."""
    assert not (root / "conftest.py").exists()
