"""Contexts and built programs: one of each per device and text, for all joins of a process."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

from streamjoin.device.devices import opencl
from streamjoin.device.opencl_text import OPTIONS
from streamjoin.errors import DeviceError
from streamjoin.folders import kept


@lru_cache
def context_of(device: Any) -> Any:
    """One for all joins on a device."""
    return opencl().Context([device])


@lru_cache(maxsize=64)
def built(device: Any, text: str) -> Any:
    """The program on a device; a failure is reported with what the compiler calls an error."""
    cl = opencl()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)  # some compilers report that they have succeeded
            program = cl.Program(context_of(device), text)
            # PyOpenCL's own cache is of pickles in a folder whose owner it does not check.
            return program.build(list(OPTIONS), cache_dir=kept("pyopencl").lend() or False)
    except cl.Error as error:
        lines = [line.strip() for line in str(error).splitlines()]
        wrong = "; ".join(line for line in lines if "error:" in line) or lines[0]
        raise DeviceError(f"the kernels do not build on {device.name}: {wrong}") from error
