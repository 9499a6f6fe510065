"""A join as a running pipeline: sources, sinks, session, and a query that is watched and can be stopped and resumed."""

MALFORMED = ("fail", "drop")  # what to do about text that does not fit the columns
