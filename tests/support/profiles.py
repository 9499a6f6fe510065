"""How long a run may take: the suite, or `make soak`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
soak_only = pytest.mark.skipif(not SOAK, reason="takes long; HYPOTHESIS_PROFILE=soak runs it")


def few_examples(test: Callable[..., Any]) -> Any:
    """Of a property that is tested on each of many paths: fewer examples on each."""
    return test if SOAK else settings(max_examples=12)(test)
