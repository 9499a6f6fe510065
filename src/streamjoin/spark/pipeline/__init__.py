"""A join as a running pipeline: sources, sinks, session, and a query that is watched and can be stopped and resumed."""
