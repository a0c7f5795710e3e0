"""What Jam costs, measured on the machine that it runs on: `python -m benchmarks` and one module a subject."""
