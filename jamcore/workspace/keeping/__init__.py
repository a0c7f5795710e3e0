"""Keeping workspaces as journaled actions: export, archive, restore (WS-4, WS-5, WS-6)."""
