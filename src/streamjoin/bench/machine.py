"""What a benchmark ran on."""

from __future__ import annotations

import platform
from typing import Any

from streamjoin.machine import usable_cores
from streamjoin.plan.costs import processor


def machine() -> dict[str, Any]:
    """Processor, cores and versions, to be printed with every figure."""
    import llvmlite
    import numba
    import numpy as np

    return {
        "cpu": processor(),
        "cores": usable_cores(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }
