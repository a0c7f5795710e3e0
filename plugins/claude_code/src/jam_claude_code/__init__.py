"""Jam's provider plugin for Claude Code."""
