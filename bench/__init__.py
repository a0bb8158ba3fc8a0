"""Benchmarks: ratios measured side by side in one run, on the embedded server with its default durability.

`python -m bench` prints a table and writes build/bench.json. Nothing fails by time; a mark that is missed says so.
"""
