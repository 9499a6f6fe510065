"""Public: the tools with which this package tests its engines, for tests of your own engine. See docs/testing.md."""
