"""What is tested is what is shipped."""

from __future__ import annotations

import importlib
import os
from importlib.metadata import requires
from pathlib import Path

import pytest

import jamcore
from jamcore.testing.providers.subject import ProviderUnderTest

TOX_ENV = os.environ.get("TOX_ENV_NAME", "")
CORE = "jamcore<1,>=0.1"


class ProviderDistribution:
    """The plugin's distribution."""

    @pytest.mark.skipif(not TOX_ENV.startswith("plugin-"), reason="runs in tox -e plugin-…: elsewhere both are the working tree")
    @pytest.mark.guarantee("KIT-2")
    def test_both_come_from_their_wheels(self, provider: ProviderUnderTest) -> None:
        """Under tox the plugin and the core lie in site-packages.

        A module that is missing in a wheel is found in the working tree, and then fails at the first user's.
        """
        for module in (importlib.import_module(provider.package), jamcore):
            assert "site-packages" in Path(str(module.__file__)).parts

    @pytest.mark.guarantee("KIT-2")
    def test_it_needs_the_core_alone(self, provider: ProviderUnderTest) -> None:
        """The distribution needs the core and nothing else at run time.

        What a plugin brings along is loaded into the daemon of everybody who installs it.
        """
        assert [need for need in requires(provider.distribution) or () if "extra ==" not in need] == [CORE]
