"""Two streams in one process: what is pushed, and what comes out."""
