"""What the removal of a session's work tree would lose: a bounded look that changes nothing and executes nothing (WS-16, SEC-2)."""
