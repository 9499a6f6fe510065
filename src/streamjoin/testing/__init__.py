"""Public: what this package tests its engines with, for those who test an engine of their own. See docs/testing.md."""
