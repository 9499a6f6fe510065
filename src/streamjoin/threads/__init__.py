"""An engine of worker threads; all concurrency is here."""
