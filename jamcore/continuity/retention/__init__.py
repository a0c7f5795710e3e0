"""Payload of generations that nobody needs: what it is, and its removal (WS-9)."""
