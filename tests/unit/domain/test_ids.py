"""Names and identifiers that come from outside or leave for an engine (PLAN-3)."""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.domain.errors import InvalidInputError
from jamcore.domain.ids import NAME_LIMIT, plugin_name, provider_identity, sandbox_name, sanitise_prefix

AGENT = UUID("00112233-4455-6677-8899-aabbccddeeff")
OWNER = UUID("ffeeddcc-bbaa-9988-7766-554433221100")
DIGEST = hashlib.sha256(bytes.fromhex("00112233445566778899aabbccddeeff00ffeeddccbbaa99887766554433221100")).hexdigest()[:16]


@pytest.mark.guarantee("PLAN-3")
def test_golden_name() -> None:
    """Byte order, separator and length are fixed: agent's bytes, one zero byte, owner's bytes, sixteen hex digits of the SHA-256."""
    assert sandbox_name("jam", AGENT, OWNER) == f"jam-{DIGEST}" == "jam-ce843d4861553e51"


@pytest.mark.guarantee("PLAN-3")
@pytest.mark.parametrize(
    ("prefix", "clean"),
    [
        ("jam", "jam"),
        ("Jam Agent", "jam-agent"),
        ("--a__b..c--", "a-b-c"),
        ("Ünïcode", "n-code"),
        ("", "jam"),
        ("!!!", "jam"),
        ("a/../b\n", "a-b"),
    ],
)
def test_golden_prefixes(prefix: str, clean: str) -> None:
    """What is not a lower-case letter or a digit becomes one hyphen; nothing left becomes the default."""
    assert sanitise_prefix(prefix) == clean
    assert sandbox_name(prefix, AGENT, OWNER) == f"{clean}-{DIGEST}"


@pytest.mark.guarantee("PLAN-3")
@given(prefix=st.text(max_size=200), agent=st.uuids(), owner=st.uuids())
def test_any_name_is_one_label(prefix: str, agent: UUID, owner: UUID) -> None:
    """Whatever the prefix: a DNS label of at most 63 characters that ends in the digest."""
    name = sandbox_name(prefix, agent, owner)
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", name)
    assert len(name) <= NAME_LIMIT
    assert "--" not in name
    assert re.search(r"-[0-9a-f]{16}\Z", name)


@pytest.mark.guarantee("PLAN-3")
@given(agents=st.tuples(st.uuids(), st.uuids()), owners=st.tuples(st.uuids(), st.uuids()))
def test_two_owners_have_two_names(agents: tuple[UUID, UUID], owners: tuple[UUID, UUID]) -> None:
    """Also when agent and owner change places."""
    pairs = {(agent, owner) for agent in agents for owner in owners} | {(owners[0], agents[0])}
    assert len({sandbox_name("jam", *pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize("text", ["thread-1", "x", "!" * 256, "01983d1e-aaaa"])
def test_a_providers_id_is_kept_as_it_is(text: str) -> None:
    """It is opaque."""
    assert provider_identity(text) == text


@pytest.mark.parametrize("text", ["", "a b", "a\n", "\x1b[2J", "é", "x" * 257, "a\x00"])
def test_a_providers_id_is_bounded(text: str) -> None:
    """What could not be shown or stored is refused."""
    with pytest.raises(InvalidInputError):
        provider_identity(text)


@pytest.mark.parametrize("text", ["", "Codex", "1x", "a-b", "a/b", "..", "a\n", "a" * 33])
def test_a_plugins_name_is_a_lower_case_identifier(text: str) -> None:
    """It becomes part of paths."""
    assert plugin_name("acp_2") == "acp_2"
    with pytest.raises(InvalidInputError):
        plugin_name(text)
