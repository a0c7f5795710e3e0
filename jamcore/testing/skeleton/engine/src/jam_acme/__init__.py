"""Jam's engine Acme."""
