"""What matches: predicates, windows, kernels and window stores. Pure: no threads, no Spark, no devices."""
