"""The index for inequalities and intervals: ordered runs with trees of minima. No distribution makes it slow."""
