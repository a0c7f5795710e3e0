"""A guest's tree of files: which of it counts, how it is walked, and who does the work."""
