"""Compiled loops over columns. They emit pairs of tuple numbers; rows are put together at the edge."""
