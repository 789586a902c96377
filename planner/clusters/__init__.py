"""Clusters from where people have them: what a tool prints → a cluster file. A new source is its file and its
line in `planner/clusters/sources.py`."""
