"""Run as ``python -P -m jamcore.testing.sbx ROOT …``: the program that ``Simulator`` installs."""

from __future__ import annotations

import sys

from jamcore.testing.sbx.main import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
