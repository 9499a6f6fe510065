"""Who meets whom: the topology and protocol of one paper per file. Pure: no threads."""
