"""From a typed tree to machine code or OpenCL C; no other room knows how Numba is called."""
