"""From a typed tree to machine code, OpenCL C or a circuit. Only this folder knows how to call Numba."""
