"""Benchmarks and the demo: results are verified before a figure is printed."""
