"""Experiments that draw what the papers describe."""
