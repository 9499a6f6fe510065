"""The handshake join in lock step: its cycle-exact model, the same as a circuit, and what open tools make of that."""
