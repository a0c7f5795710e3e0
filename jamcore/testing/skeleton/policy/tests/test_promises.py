"""The policy keeps what every policy promises, and is what Jam finds."""

from __future__ import annotations

from importlib.metadata import entry_points

from jamcore.testing.policies.promises import PolicyPromises

from jam_acme.plugin import AcmePolicy


class TestPromises(PolicyPromises):
    """Acme's."""


def test_it_is_what_its_entry_point_names() -> None:
    """What is installed under its name is what is tested."""
    [found] = entry_points(group="jam.policies", name="acme")
    assert found.load() is AcmePolicy
