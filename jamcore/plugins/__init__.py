"""How providers come in: hook specifications, loading with isolation, and one typed facade per provider."""
