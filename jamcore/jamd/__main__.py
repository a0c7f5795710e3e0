"""``python -m jamcore.jamd``."""

from __future__ import annotations

import logging
import sys

from jamcore.jamd import main

if __name__ == "__main__":
    logging.captureWarnings(capture=True)
    sys.exit(main())
