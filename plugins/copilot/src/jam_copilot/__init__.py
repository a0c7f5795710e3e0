"""Jam's provider plugin for GitHub Copilot."""
