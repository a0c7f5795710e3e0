"""Databases on the guest's own disk: copied and put back by a helper in the sandbox (CONT-5)."""
