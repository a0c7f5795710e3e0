"""One story that every provider has to go through in a real daemon, in steps; a plugin's tests say what is peculiar to it as a row."""

import pytest

pytest.register_assert_rewrite(__name__)
