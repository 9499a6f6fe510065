"""Rows out: from pairs of tuple numbers to result rows."""
