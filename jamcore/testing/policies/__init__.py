"""The suites of policies and families: what each promises, put to a provider that is nobody's.

A policy's author says in the conftest of its tests which policy it is, and subclasses the suite beside the tests of its own rules::

    @pytest.fixture(scope="session")
    def policy() -> PluginUnderTest:
        return PluginUnderTest(name="mine", package="jam_mine", plugin=MinePolicy)

    class TestPromises(PolicyPromises): ...

A family's author does the same with ``family`` and :class:`FamilyPromises`, and puts ``ProviderPromises`` to what :func:`least_of` makes.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.promises", f"{__name__}.families")
