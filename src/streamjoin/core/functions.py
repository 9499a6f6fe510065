"""Python functions inside generated modules: kept as byte code, so that their kernels are cached like all others."""

from __future__ import annotations

import dis
import marshal
import math
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from streamjoin.core.tree import Node

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Embedded:
    """Text that defines FUNCTION, R_TUPLE and S_TUPLE, and what must be put into the module as it is."""

    text: str
    inject: dict[str, Any]


def embed(node: Node) -> Embedded:
    """Prepares a `function` node for a generated module."""
    fn: FunctionType = node.value
    tuples = ""
    for side in "rs":
        names = [arg.value[1] for arg in node.args if arg.value[0] == side]
        tuples += f"{side.upper()}_TUPLE = namedtuple({side!r}, {names!r}, rename=True)\n"
    head = f"import marshal\nfrom collections import namedtuple\nfrom types import CellType, FunctionType\n\n{tuples}"
    values = _globals(fn)
    cells = [cell.cell_contents for cell in fn.__closure__ or ()]
    if values is None or not all(_constant(value) for value in cells):
        from numba import njit

        return Embedded(head, {"FUNCTION": njit(nogil=True)(fn)})
    imports = "".join(f"import {module.__name__}\n" for module in values.values() if isinstance(module, ModuleType))
    scope = ", ".join(
        f"{name!r}: {value.__name__ if isinstance(value, ModuleType) else _text(value)}"
        for name, value in values.items()
    )
    closure = ", ".join(f"CellType({_text(value)})" for value in cells)
    # Where a function was written is no part of its meaning: without that, equal functions share a module.
    code = marshal.dumps(_bare(fn.__code__))
    text = (
        f"{imports}{head}"
        f"FUNCTION = njit(nogil=True)(FunctionType(\n    marshal.loads({code!r}),\n"
        f"    {{'__name__': __name__, {scope}}}, 'predicate', None, ({closure}{',' if cells else ''})))\n"
    )
    return Embedded(text, {})


def reason(error: Exception) -> str:
    """What the compiler did not like, in one line of its report."""
    noise = ("Failed in nopython mode", "During:", "File ", "- Resolution failure", "Overload", ">>>", "There are")
    for line in str(error).splitlines():
        text = line.strip().removesuffix(". Raised from None")
        if text and not text.startswith(noise):
            return text if len(text) <= 300 else text[:297] + "..."
    return type(error).__name__


def _bare(code: CodeType) -> CodeType:
    inner = tuple(_bare(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts)
    return code.replace(
        co_filename="predicate", co_firstlineno=1, co_consts=inner, co_name="predicate", co_qualname="predicate"
    )


def _globals(fn: FunctionType) -> dict[str, Any] | None:
    """The module-level names that the function uses, or None if one of them cannot be written down as text."""
    found: dict[str, Any] = {}
    used = {step.argval for step in dis.get_instructions(fn.__code__) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for name in sorted(used):
        if name in fn.__globals__:
            value = fn.__globals__[name]
            if not (_constant(value) or value is math or value is np):
                return None
            found[name] = value
    return found


def _constant(value: Any) -> bool:
    return isinstance(value, (*_PLAIN, np.number)) or (isinstance(value, tuple) and all(map(_constant, value)))


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        return f"float({str(float(value))!r})"
    return repr(value.item() if isinstance(value, np.number) else value)
