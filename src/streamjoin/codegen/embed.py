"""Python functions inside generated modules: stored as byte code, so that their kernels are cached like all others."""

from __future__ import annotations

import dis
import hashlib
import marshal
import math
import pickle
from dataclasses import dataclass
from enum import EnumMeta
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from streamjoin.predicate.function import codes
from streamjoin.predicate.tree import Node

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Embedded:
    """Text that defines FUNCTION, R_TUPLE and S_TUPLE, and the objects that must be put into the module."""

    text: str
    inject: dict[str, Any]


def embed(node: Node) -> Embedded:
    """Prepares a `function` node for a generated module."""
    fn = cast(FunctionType, node.function)
    tuples = ""
    for side in "rs":
        names = [name for of, name in (arg.column for arg in node.args) if of == side]
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
    # Without the file and line of a function, equal functions share a module.
    code = marshal.dumps(_bare(fn.__code__))
    text = (
        f"{imports}{head}"
        f"FUNCTION = njit(nogil=True)(FunctionType(\n    marshal.loads({code!r}),\n"
        f"    {{'__name__': __name__, {scope}}}, 'predicate', None, ({closure}{',' if cells else ''})))\n"
    )
    return Embedded(text, {})


def fingerprint(value: Any, around: tuple[Any, ...] = ()) -> str:
    """A text for a function: its code and the values that it takes from outside, including the functions it calls.

    Functions with equal texts compile to the same code. The text depends neither on the file and line nor on the
    process, so a later session recognises the function.

    >>> limit = 5
    >>> before = fingerprint(lambda r, s: r.x < limit)
    >>> before == fingerprint(lambda r, s: r.x < limit)
    True
    >>> limit = 6
    >>> before == fingerprint(lambda r, s: r.x < limit)
    False
    """
    if any(value is outer for outer in around):
        return "itself"
    inside = (*around, value)
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        parts = [value.__code__, _scope(value), _attributes(value), cells, value.__defaults__]
        return f"function({fingerprint(parts, inside)})"
    source = getattr(getattr(value, "_dispatcher", value), "py_func", None)
    if source is not None:  # compiled by Numba, with njit or vectorize
        return fingerprint(source, around)
    if isinstance(value, EnumMeta):
        return f"{value.__qualname__}{fingerprint([(member.name, member.value) for member in value], inside)}"  # type: ignore[var-annotated]
    if isinstance(value, CodeType):
        names = value.co_names, value.co_varnames, value.co_freevars
        return fingerprint([value.co_code, value.co_consts, *names], inside)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(fingerprint(part, inside) for part in value)}]"
    if isinstance(value, (frozenset, dict)):
        members = value.items() if isinstance(value, dict) else value
        return f"{{{', '.join(sorted(fingerprint(member, inside) for member in members))}}}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array({value.dtype.descr}, {value.shape}, {hashlib.sha256(value.tobytes()).hexdigest()})"
    if _is_long(value):
        return f"int({value:x})"
    if isinstance(value, (*_PLAIN, complex, bytes, np.generic)):
        return f"{type(value).__name__}({value!r})"
    if isinstance(value, ModuleType):
        return value.__name__
    if hasattr(value, "__qualname__"):  # a class, or a function without code in Python
        return f"{value.__module__}.{value.__qualname__}"
    return f"pickle({hashlib.sha256(pickle.dumps(value)).hexdigest()})"


def reason(error: Exception) -> str:
    """The compiler's reason, one line of its report."""
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
    """The module-level names that the function uses, or None if one of them cannot be written as text."""
    found = _scope(fn)
    fitting = (_constant(value) or value is math or value is np for value in found.values())
    return found if all(fitting) else None


def _scope(fn: FunctionType) -> dict[str, Any]:
    """The module-level names that the function and those inside it use, with their values."""
    steps = chain.from_iterable(dis.get_instructions(code) for code in codes(fn.__code__))
    used = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return {name: fn.__globals__[name] for name in sorted(used) if name in fn.__globals__}


def _attributes(fn: FunctionType) -> list[Any]:
    """The attributes that the function may read of the modules it uses, except modules that never change."""
    modules = [value for value in _scope(fn).values() if isinstance(value, ModuleType) and value not in (math, np)]
    names = {name for code in codes(fn.__code__) for name in code.co_names}
    return [{name: getattr(module, name) for name in names if hasattr(module, name)} for module in modules]


def _constant(value: Any) -> bool:
    plain = type(value) in _PLAIN or isinstance(value, np.number)
    return plain or (type(value) is tuple and all(map(_constant, value)))


def _text(value: Any) -> str:
    if type(value) is tuple:
        return f"({''.join(f'{_text(part)}, ' for part in value)})"
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        return f"float({str(float(value))!r})"
    plain = value.item() if isinstance(value, np.number) else value
    return hex(plain) if _is_long(plain) else repr(plain)


def _is_long(value: Any) -> bool:
    """An integer beyond all types, perhaps with more digits than Python converts: Numba reports the error."""
    return isinstance(value, int) and value.bit_length() > 200
