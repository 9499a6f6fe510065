"""Monitoring a running join: a page in the browser, a recording, and metrics for Prometheus.

join.stats(), Spark's listener ─▶ Run ─▶ page (server-sent events), /metrics, recording
"""
