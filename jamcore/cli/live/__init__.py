"""A room on a terminal: text that streams above a line to type in, work folded to a line each, and a line that says how things stand."""
