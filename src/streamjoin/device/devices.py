"""Lists the OpenCL devices, and chooses one."""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from streamjoin.errors import DeviceError, OptionError
from streamjoin.folders import kept

INSTALL = "pip install 'streamjoin[opencl]' brings a device that runs on the CPU"
REMEDY = (
    "pip install intel-opencl-rt intel-cmplr-lib-rt brings another device that runs on the CPU; "
    'or update the driver, or use algorithm="grid"'
)
TYPES = ("cpu", "gpu", "accelerator")
VENDORS = Path("/etc/OpenCL/vendors")  # where an OpenCL loader looks for drivers unless a variable names another folder
VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")


def opencl() -> Any:
    """PyOpenCL, or an error that says how to get it."""
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError(f'algorithm="hells" needs PyOpenCL, which cannot be imported ({error}); {INSTALL}') from error
    return pyopencl


@lru_cache(maxsize=1)
def _platforms() -> list[Any]:
    """All drivers, among them Intel's for CPUs if its wheel is installed here.

    The wheel's own entry names a folder that does not exist. A loader reads entries once, from one folder: it gets a
    folder with those of the system and a right one. A folder that the user has set by a variable is kept.
    """
    cl = opencl()
    # PoCL caches machine code, without HOME in /tmp/pocl, where anybody may have planted some.
    folder = kept("pocl").lend()
    os.environ.setdefault(*(("POCL_CACHE_DIR", folder) if folder else ("POCL_KERNEL_CACHE", "0")))
    library = _intel()
    if library is None or any(os.environ.get(name) for name in VARIABLES):
        return list(cl.get_platforms())
    with tempfile.TemporaryDirectory(prefix="streamjoin-opencl-") as folder:
        for entry in VENDORS.glob("*.icd"):
            (Path(folder) / entry.name).write_bytes(entry.read_bytes())
        (Path(folder) / "streamjoin-intel.icd").write_text(f"{library}\n", encoding="utf-8")
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            return list(cl.get_platforms())
        finally:
            del os.environ["OCL_ICD_VENDORS"]


def _intel() -> Path | None:
    """The driver in the wheel intel-opencl-rt, if that is installed in this environment."""
    try:
        files = metadata.files("intel-opencl-rt") or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())).resolve() for file in files if file.name == "libintelocl.so"), None)


def devices() -> list[Any]:
    """All OpenCL devices, platform by platform: their order is their index."""
    cl = opencl()
    try:
        return [device for platform in _platforms() for device in platform.get_devices()]
    except cl.Error as error:
        raise DeviceError(f"no OpenCL platform was found ({error}); {INSTALL}") from error


def choose(wanted: int | str | None) -> Any:
    """The device of an index, of a type, or whose name contains a text. By default a GPU if there is one.

    Of several, the first that knows the answers of `device/known.py`; those passed over are named in a warning.
    """
    from streamjoin.device.known import why_unfit

    found = devices()
    if not found:
        raise DeviceError(f"no OpenCL device was found; {INSTALL}")
    reasons: list[str] = []
    for index in _meant(found, wanted):
        reason = why_unfit(index, found[index])
        if not reason:
            for passed_over in reasons:
                warnings.warn(f"passed over the OpenCL device {passed_over}", RuntimeWarning, stacklevel=2)
            return found[index]
        reasons.append(f"{found[index].name} of {found[index].platform.name}, which failed its test: {reason}")
    raise DeviceError(f"cannot join on the OpenCL device {'; nor on '.join(reasons)}; {REMEDY}")


def _meant(found: list[Any], wanted: int | str | None) -> list[int]:
    """The indices of all devices that `device=` can mean, the best one first."""
    # PoCL comes last: another driver for the CPU was installed on purpose, because it is faster.
    order = sorted(range(len(found)), key=lambda k: (kind(found[k]) != "gpu", "Portable" in found[k].platform.name))
    if wanted is None:
        return order
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        meant = [wanted] if 0 <= wanted < len(found) else []
    elif isinstance(wanted, str):
        text = wanted.strip().lower()
        meant = [k for k in order if text and (kind(found[k]) == text if text in TYPES else text in name_of(found[k]))]
    else:
        raise OptionError(f"device={wanted!r} must be an index, a type ({', '.join(TYPES)}) or a part of a name")
    if not meant:
        listed = "; ".join(f"{k}: {device.name} ({kind(device)})" for k, device in enumerate(found))
        raise OptionError(f"no device matches device={wanted!r}; available: {listed}")
    return meant


def name_of(device: Any) -> str:
    """The name that `device=` may be a part of. It includes the driver's, since two drivers may serve one processor."""
    return f"{device.name} {device.platform.name}".lower()


def kind(device: Any) -> str:
    """Its type, in a word."""
    cl = opencl()
    names = {"cpu": cl.device_type.CPU, "gpu": cl.device_type.GPU, "accelerator": cl.device_type.ACCELERATOR}
    return next((name for name, bit in names.items() if device.type & bit), "other")


def denormals(device: Any) -> bool:
    """Does it distinguish subnormal floats from zero?"""
    return bool(device.single_fp_config & opencl().device_fp_config.DENORM)


def describe(device: Any) -> dict[str, Any]:
    """The properties of a device that matter here."""
    return {
        "name": device.name.strip(),
        "type": kind(device),
        "platform": device.platform.name.strip(),
        "version": device.version.strip(),
        "driver": device.driver_version.strip(),
        "compute_units": device.max_compute_units,
        "memory_bytes": device.global_mem_size,
        "largest_buffer_bytes": device.max_mem_alloc_size,
        "unified_memory": bool(device.host_unified_memory),
        "doubles": bool(device.double_fp_config),
    }
