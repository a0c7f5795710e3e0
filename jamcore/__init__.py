"""Jam: coding agents in sandboxes on your own machine, each session brought back to its exact conversation."""
