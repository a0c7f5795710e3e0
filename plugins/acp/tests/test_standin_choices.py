"""Mode, model and login, of agents that are a few lines of Python."""

from __future__ import annotations

import json

import pytest

from jam_acp.profile import Authentication, Profile
from jamcore.api import (
    CredentialSpec,
    ProviderRefusedError,
    ThreadRequest,
    provider_identity,
)
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.providers.standin import Bad

pytestmark = [pytest.mark.unprivileged]

QUIET = ThreadRequest(cwd="/")


OPTIONS = (
    'result({"sessionId": "s", "configOptions": [{"id": "m", "category": "model", "currentValue": "old"},'
    ' {"id": "k", "category": "mode", "currentValue": "plan"}]}); continue'
)
CHOSEN = "send({'jsonrpc': '2.0', 'method': 'chosen', 'params': {}}); open('chosen', 'a').write(line)"


@pytest.fixture
def modal(plain: Profile) -> Profile:
    """A profile with a mode that is chosen at once."""
    return plain.model_copy(update={"mode": "agent"})


def chosen(guest: LocalGuest) -> list[str]:
    """Return what was chosen, in order."""
    path = guest.home / "chosen"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [f"{line['method']} {sorted(line['params'].items())}" for line in lines]


async def test_mode_and_model_are_chosen_also_when_the_session_comes_back(modal: Profile, fake: Bad, guest: LocalGuest) -> None:
    """Agents forget both; what is so already is not chosen again."""
    wanted = ThreadRequest(cwd="/", model="new")
    replayed = 'say("user_message_chunk", "hello"); ' + OPTIONS.replace('"plan"', '"agent"')
    async with fake(modal, new=OPTIONS, choose=CHOSEN) as runtime:
        await runtime.open_thread(wanted)
    async with fake(modal, load=replayed, choose=CHOSEN) as runtime:
        await runtime.resume_thread(provider_identity("s"), wanted)
    model = "session/set_config_option [('configId', 'm'), ('sessionId', 's'), ('value', 'new')]"
    assert chosen(guest) == [model, "session/set_config_option [('configId', 'k'), ('sessionId', 's'), ('value', 'agent')]", model]


async def test_the_older_form_of_a_choice_is_known(modal: Profile, fake: Bad, guest: LocalGuest) -> None:
    """An agent without options may have modes and models of their own."""
    older = (
        'result({"sessionId": "s", "modes": {"currentModeId": "plan", "availableModes": []},'
        ' "models": {"currentModelId": "old"}}); continue'
    )
    async with fake(modal, new=older, choose=CHOSEN) as runtime:
        await runtime.open_thread(ThreadRequest(cwd="/", model="new"))
    assert chosen(guest) == [
        "session/set_model [('modelId', 'new'), ('sessionId', 's')]",
        "session/set_mode [('modeId', 'agent'), ('sessionId', 's')]",
    ]


@pytest.mark.parametrize(
    "places", [{}, {"new": OPTIONS, "choose": 'error(-32602, "model not found: new"); continue'}], ids=["no choice", "refused"]
)
async def test_a_model_that_cannot_be_had_is_refused(plain: Profile, fake: Bad, places: dict[str, str]) -> None:
    """Never is another one used instead."""
    async with fake(**places) as runtime:
        with pytest.raises(ProviderRefusedError, match="model"):
            await runtime.open_thread(ThreadRequest(cwd="/", model="new"))


KEY = CredentialSpec(
    name="plain", environment_names=("plain_KEY",), header="authorization", prefix="Bearer ", origin="https://example.org"
)
LOGIN = 'if not authenticated: error(-32000, "Authentication required"); continue'


async def test_an_agent_that_wants_a_login_is_refused_with_what_to_set(plain: Profile, fake: Bad) -> None:
    """It is not asked to authenticate, which could open a browser and wait for somebody; the variable to set is named."""
    profile = plain.model_copy(update={"credential": KEY})
    async with fake(profile, new=LOGIN, authenticate="time.sleep(1000)") as runtime:
        with pytest.raises(ProviderRefusedError, match="plain_KEY"):
            await runtime.open_thread(QUIET)


async def test_an_agent_may_be_authenticated_once_after_it_refused(plain: Profile, fake: Bad) -> None:
    """Where its profile says so; and a refusal afterwards is the person's to read."""
    profile = plain.model_copy(update={"authentication": Authentication.WHEN_REFUSED, "auth_method": "key"})
    async with fake(profile, new=LOGIN) as runtime:
        assert (await runtime.open_thread(QUIET)).identity == "s"
    async with fake(profile, new=LOGIN, authenticate='error(-32602, "bad key"); continue') as runtime:
        with pytest.raises(ProviderRefusedError, match="bad key"):
            await runtime.open_thread(QUIET)
