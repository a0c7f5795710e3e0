"""A generation as plain files inside an export, and a generation made from such files again (WS-5, WS-6)."""
