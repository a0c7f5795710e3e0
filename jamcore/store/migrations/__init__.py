"""The schema's history, oldest first in ``versions``."""
