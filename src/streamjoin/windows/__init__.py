"""Which pairs lie in a window: kinds, bounds, horizon, lateness."""

from __future__ import annotations

import numpy as np

FOREVER = int(np.iinfo(np.int64).max)
SINCE_EVER = int(np.iinfo(np.int64).min)
