"""The types of what compiled code shares with Python."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


def address(array: Array) -> int:
    """Where an array begins. (Much quicker than `array.ctypes.data`.)"""
    return int(array.__array_interface__["data"][0])
