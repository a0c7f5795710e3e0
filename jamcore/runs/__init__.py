"""Runs: from an objective to a change request that a person accepts or rejects."""
