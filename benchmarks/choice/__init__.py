"""What choosing among predictions is worth, on measured comparisons: `python -m benchmarks.choice`."""
