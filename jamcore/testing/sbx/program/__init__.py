"""What every command works with: the command line as the cobra library reads it, output and errors, the way to the daemon."""
