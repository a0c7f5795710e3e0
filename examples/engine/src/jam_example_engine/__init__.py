"""Jam's engine ExampleEngine."""
