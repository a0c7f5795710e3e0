"""Acme, a policy for every room of Jam."""
