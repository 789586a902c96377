"""Broken files of every kind that a command reads: `python -m benchmarks.fuzz [--cases N] [--minutes M]`.

`kinds.py` has a good file of each kind and the command that reads it, `breaking.py` ways to break it that
know its structure, `judging.py` what an answer must be. Case N of a seed is the same case on every machine.
"""
