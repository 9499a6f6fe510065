"""Handshake join in lock step: its cycle-exact model, the circuit, and its synthesis with open tools."""
