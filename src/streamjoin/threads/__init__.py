"""An engine of worker threads. All concurrency is in this folder."""
