"""Jam's provider plugin for OpenAI Codex."""
