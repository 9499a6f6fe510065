"""What tests use, for those who test an engine of their own."""
