"""Jam's provider plugin for ExampleAgent."""
