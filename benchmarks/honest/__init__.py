"""Tries to prove the planner's bounds false: see `__main__.py`."""
