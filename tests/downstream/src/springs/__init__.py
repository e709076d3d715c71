"""A chain of springs; its forces (`springs.forces`) are in files that symdiff wrote.

Imports nothing: `symdiff export` imports `springs.model` when none of them is there yet.
"""
