"""Small seams to the machine: clock, ids, files, processes, locks. Each is a Protocol with its real implementation."""
