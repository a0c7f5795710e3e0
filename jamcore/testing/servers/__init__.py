"""Scripted servers on loopback, for tests that run the real provider programs."""
