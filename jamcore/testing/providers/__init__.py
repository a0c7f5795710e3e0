"""The provider suite: what every provider's plugin has to do, proven on the program itself.

A plugin's author says in the conftest of the plugin's tests what is peculiar to it, and takes the fixtures::

    from jamcore.testing.providers.fixtures import *
    from jamcore.testing.providers.subject import ProviderUnderTest

    UNDER_TEST = ProviderUnderTest(name="mine", plugin=MyPlugin, ...)

    @pytest.fixture(scope="session")
    def provider() -> ProviderUnderTest:
        return UNDER_TEST

and subclasses each part of the suite in a test module, beside the tests that only this provider needs::

    from jamcore.testing.providers.turns import ProviderTurns

    class TestTurns(ProviderTurns):
        printed = "hi"

Programs run as plain children of the test against a scripted model server on loopback. What a plugin does not claim (an ability in its
description, a kind of cell, a way of capturing) is skipped as "not claimed" with the reason; everything else has to pass.
"""

import pytest

pytest.register_assert_rewrite(__name__)
