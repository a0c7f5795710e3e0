"""Exports: workspaces as plain, self-describing directories that can be checked and read without Jam (WS-5, WS-13)."""
