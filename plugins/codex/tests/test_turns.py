"""Turns of the real Codex: typed events in order, tools that change files, interruption, busy threads."""

from __future__ import annotations

import pytest

from jamcore.testing.providers.turns import ProviderTurns

pytestmark = [pytest.mark.needs("codex"), pytest.mark.unprivileged]


class TestTurns(ProviderTurns):
    """Codex's."""

    cut_mark = '"turn_aborted"'
    told_of_interrupt = ("<turn_aborted>",)
    offered = frozenset({"exec_command", "request_user_input", "view_image", "write_stdin"})
