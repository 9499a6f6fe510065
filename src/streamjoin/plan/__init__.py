"""The decisions of a join: its checks, the performance model, the prices on this machine, and what "auto" chooses.

What the documentation shows by this name, docs/model.md, is here; the rest is imported from where it stands.
"""

from streamjoin.plan.choice import Task as Task
from streamjoin.plan.choice import choose as choose
from streamjoin.windows.window import Retention as Retention
