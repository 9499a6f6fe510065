"""Which OpenCL devices there are, and which one is meant."""

from __future__ import annotations

from typing import Any

from streamjoin.errors import DeviceError, OptionError

INSTALL = "pip install 'streamjoin[opencl]' brings a device that runs on the CPU"
TYPES = ("cpu", "gpu", "accelerator")


def opencl() -> Any:
    """PyOpenCL, or an error that says how to get it."""
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError(f'algorithm="hells" needs PyOpenCL, which cannot be imported ({error}); {INSTALL}') from error
    return pyopencl


def devices() -> list[Any]:
    """All OpenCL devices, platform by platform: their order is their index."""
    cl = opencl()
    try:
        return [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error as error:
        raise DeviceError(f"no OpenCL platform was found ({error}); {INSTALL}") from error


def choose(wanted: int | str | None) -> Any:
    """The device of an index, of a type, or whose name contains a text. By default a GPU if there is one."""
    found = devices()
    if not found:
        raise DeviceError(f"no OpenCL device was found; {INSTALL}")
    if wanted is None:
        return next((device for device in found if kind(device) == "gpu"), found[0])
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if 0 <= wanted < len(found):
            return found[wanted]
    elif isinstance(wanted, str):
        text = wanted.strip().lower()
        for device in found:
            if text and (kind(device) == text if text in TYPES else text in device.name.lower()):
                return device
    else:
        raise OptionError(f"device={wanted!r} must be an index, a type ({', '.join(TYPES)}) or a part of a name")
    listed = "; ".join(f"{k}: {device.name} ({kind(device)})" for k, device in enumerate(found))
    raise OptionError(f"device={wanted!r} is not here; there is {listed}")


def kind(device: Any) -> str:
    """Its type, in a word."""
    cl = opencl()
    names = {"cpu": cl.device_type.CPU, "gpu": cl.device_type.GPU, "accelerator": cl.device_type.ACCELERATOR}
    return next((name for name, bit in names.items() if device.type & bit), "other")


def describe(device: Any) -> dict[str, Any]:
    """What matters of a device."""
    return {
        "name": device.name.strip(),
        "type": kind(device),
        "platform": device.platform.name.strip(),
        "version": device.version.strip(),
        "compute_units": device.max_compute_units,
        "memory_bytes": device.global_mem_size,
        "largest_buffer_bytes": device.max_mem_alloc_size,
        "unified_memory": bool(device.host_unified_memory),
        "doubles": bool(device.double_fp_config),
    }
