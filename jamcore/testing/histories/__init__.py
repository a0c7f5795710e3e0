"""Histories of a whole daemon: what people may ask for in any order, and a small model of what must be true after each (WS-2, WS-12)."""
