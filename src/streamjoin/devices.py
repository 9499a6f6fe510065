"""The way to OpenCL devices for the rest of the package. PyOpenCL is imported when one is needed, not before."""

from __future__ import annotations

from typing import Any


def examined() -> list[dict[str, Any]] | str:
    """Every OpenCL device by the index that `device=` takes, and its "trouble"; a text if there is none.

    No driver is loaded into this process.
    """
    from streamjoin.device import known

    found = known.listed_apart()
    if isinstance(found, str):
        return found
    return [device | {"trouble": known.apart(k)} for k, device in enumerate(found)]


def chosen(wanted: int | str | None) -> dict[str, Any]:
    """The device that `device=` means."""
    from streamjoin.device import devices as choice

    return choice.describe(choice.choose(wanted))


def placement(unified: bool, wanted: str) -> str:
    """Where windows lie on a device whose memory is or is not the CPU's, if `memory=` is this."""
    from streamjoin.device import buffers as memory

    return memory.placement(unified, wanted)
