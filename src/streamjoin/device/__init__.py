"""The comparison of a join on an OpenCL device. PyOpenCL is imported here and nowhere else."""
