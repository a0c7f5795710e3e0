"""Jam's provider plugin for agents of the Agent Client Protocol."""
