"""How long a run may take: the suite, or `make soak`."""

from __future__ import annotations

import os

import pytest

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
soak_only = pytest.mark.skipif(not SOAK, reason="takes long; HYPOTHESIS_PROFILE=soak runs it")
