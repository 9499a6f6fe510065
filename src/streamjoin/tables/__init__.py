"""Two whole tables."""
