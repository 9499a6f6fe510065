"""How a window is searched: tuples in memory, and what finds candidates among them."""
