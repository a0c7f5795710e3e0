"""Jam's provider plugin for Acme."""
