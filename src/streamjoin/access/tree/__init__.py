"""The index for inequalities and intervals: ordered runs with trees of minima, which no distribution makes slow."""
