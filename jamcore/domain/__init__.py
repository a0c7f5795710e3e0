"""What exists in Jam, without any input or output: records, tables, decisions and typed errors."""
