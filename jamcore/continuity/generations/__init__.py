"""Generations on disk: blocks in packs, what a generation is made of, and whether it is whole."""
