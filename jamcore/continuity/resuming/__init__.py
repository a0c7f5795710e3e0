"""From a generation to a conversation that goes on: decide, compare, restore, observe."""
