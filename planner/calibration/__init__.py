"""A user's own measurements: read (`measurements.py`), and what they say of the cost model."""
