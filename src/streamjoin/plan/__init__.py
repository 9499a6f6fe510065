"""The decisions of a join: its checks, the performance model, the prices on this machine, and what "auto" chooses."""

from streamjoin.access.prices import Costs, Price
from streamjoin.plan.choice import Choice, Task, Wish, choose
from streamjoin.plan.costs import calibrated, remembered
from streamjoin.plan.formulas import (
    Layout,
    Load,
    Node,
    best_layout,
    busy,
    grid_latency,
    handshake_latency,
    handshake_latency_bound,
    latency,
    latency_r,
    latency_s,
    layouts,
    load_of,
    max_bandwidth,
    node_of,
    offered_bandwidth,
    optimal_degree,
    sustainable_rate,
    symmetric_latency,
)
from streamjoin.windows.window import Stay

__all__ = [
    "Choice",
    "Costs",
    "Layout",
    "Load",
    "Node",
    "Price",
    "Stay",
    "Task",
    "Wish",
    "best_layout",
    "busy",
    "calibrated",
    "choose",
    "grid_latency",
    "handshake_latency",
    "handshake_latency_bound",
    "latency",
    "latency_r",
    "latency_s",
    "layouts",
    "load_of",
    "max_bandwidth",
    "node_of",
    "offered_bandwidth",
    "optimal_degree",
    "remembered",
    "sustainable_rate",
    "symmetric_latency",
]
