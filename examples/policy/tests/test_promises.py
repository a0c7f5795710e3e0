"""The policy keeps what every policy promises, and is what Jam finds."""

from __future__ import annotations

from importlib.metadata import entry_points

from jamcore.testing.policies.promises import PolicyPromises

from jam_example_policy.plugin import ExamplePolicyPolicy


class TestPromises(PolicyPromises):
    """ExamplePolicy's."""


def test_it_is_what_its_entry_point_names() -> None:
    """What is installed under its name is what is tested."""
    [found] = entry_points(group="jam.policies", name="example_policy")
    assert found.load() is ExamplePolicyPolicy
