"""The provider suite itself: every check has a rule and says why, it names no provider, and its stand-ins do what a test says."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from jamcore.testing import providers
from jamcore.testing.doubles.providers import GoodProvider
from jamcore.testing.providers.case import told
from jamcore.testing.providers.standin import StandIn
from jamcore.testing.providers.subject import ProviderUnderTest
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.history import NOTHING, Normalisation, UserText
from jamcore.testing.servers.script import Call, say

pytest_plugins = "pytester"

CONFTEST = """
import pytest
from jamcore.testing.doubles.providers import GoodProvider
from jamcore.testing.providers.fixtures import provider_hooks
from jamcore.testing.providers.subject import ProviderUnderTest
from jamcore.testing.servers.history import Normalisation

@pytest.fixture(scope="session")
def provider():
    own = Normalisation(("# Mine",), ("mine",))
    return ProviderUnderTest("good", "good", GoodProvider, None, None, "m", None, None, "unknown", own)
"""
NAMES = re.compile("codex|copilot|claude|opencode|cursor", re.IGNORECASE)
TEXT = """#!/usr/bin/env python3
import sys
for word in sys.argv[1:]:
    #said
    print(word)
#end
"""


def provider_that_writes(own: Normalisation) -> ProviderUnderTest:
    """Return a provider whose program writes this itself among what the model is told."""
    return ProviderUnderTest(
        name="good",
        package="good",
        plugin=GoodProvider,
        toolchain=None,
        server=ChatServer,
        model="m",
        shell=lambda call_id, command: Call(name="run", arguments={"command": command}, call_id=call_id),
        write=lambda call_id, _work, name, content: Call(name="write", arguments={name: content}, call_id=call_id),
        unknown="unknown",
        normalisation=own,
    )


def checks() -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of every check in every part of the suite."""
    for module in (
        importlib.import_module(f"{providers.__name__}.{found.name}") for found in pkgutil.iter_modules(providers.__path__)
    ):
        for part in vars(module).values():
            if inspect.isclass(part) and part.__module__ == module.__name__:
                for name, check in vars(part).items():
                    if name.startswith("test_"):
                        yield f"{part.__name__}.{name}", inspect.getdoc(check) or ""


@pytest.mark.guarantee("KIT-2")
def test_every_check_says_its_rule_and_why_it_is_one() -> None:
    """An author whose plugin fails a check reads both: the first line is the rule, the rest is why."""
    found = dict(checks())
    assert len(found) > 50
    assert [name for name, text in found.items() if not re.fullmatch(r"[^\n]+\.\n\n(?s:.+)\.", text)] == []


@pytest.mark.guarantee("KIT-2")
def test_the_suite_names_no_provider() -> None:
    """It is for plugins that nobody has thought of; what is peculiar to one is said in its own tests."""
    sources = [
        Path(place) / f"{found.name}.py" for found in pkgutil.iter_modules(providers.__path__) for place in providers.__path__
    ]
    assert [path.name for path in sources if NAMES.search(path.read_text())] == []


@pytest.mark.anyio
@pytest.mark.guarantee("CONT-1", "KIT-2")
@pytest.mark.parametrize("own", [NOTHING, Normalisation(("[mine]",), ("mine",))], ids=["nothing", "declared"])
async def test_only_what_a_provider_declares_is_in_no_comparison(own: Normalisation) -> None:
    """Another provider's marks are words like any others, and without a declaration every word counts."""
    said = ["[mine] context", "<environment_context>", "<mine>now</mine> hi"]
    async with provider_that_writes(own).model_server(say("hello")) as model, aiohttp.ClientSession() as session:
        body = {"model": "m", "messages": [{"role": "user", "content": text} for text in said]}
        async with session.post(f"{model.api_url}/chat/completions", json=body) as answer:
            assert answer.status == 200
        assert [item.text for item in told(model) if isinstance(item, UserText)] == (said if own == NOTHING else [said[1], "hi"])


@pytest.mark.guarantee("CONT-1")
def test_a_run_prints_what_was_in_no_comparison(pytester: pytest.Pytester) -> None:
    """A proof that something came back exactly is worth what was compared."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("def test_something(provider_hooks): pass")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["good: compared word by word but for user messages that begin with `# Mine` and elements `<mine>`*"]
    )


def test_statements_stand_at_their_places(tmp_path: Path) -> None:
    """Indented as the place is, line by line; a place without statements does nothing."""
    stand_in = StandIn("bin/it", TEXT)
    assert stand_in.places == {"said", "end"}
    stand_in.write(tmp_path, said="if word == 'b':\n    continue")
    done = subprocess.run([sys.executable, tmp_path / "bin" / "it", "a", "b", "c"], capture_output=True, text=True, check=True)
    assert done.stdout == "a\nc\n"


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A misbehaviour that is put nowhere would be a test that cannot fail."""
    with pytest.raises(KeyError, match="sayd"):
        StandIn("it", TEXT).write(tmp_path, sayd="continue")
