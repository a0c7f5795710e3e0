"""``python -m jamcore.testing.fake_daemon``."""

from __future__ import annotations

from jamcore.testing.fake_daemon.daemon import main

main()
