"""Exported command lines read by the engines' own parsers: see `__main__.py`."""
