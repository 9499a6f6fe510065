"""A plain Python function as predicate: its signature, the columns it reads, and what it needs to be true."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from streamjoin.errors import PredicateError, SchemaError, cut, listed, shown, suggest
from streamjoin.predicate.operations import ROWS
from streamjoin.predicate.tree import Node, column, literal

MAX_PATHS = 64
"""How many paths through a function are followed before its meaning is left to the compiled code alone."""

MAX_STEPS = 1_000
"""How many operations of a path, of a loop perhaps, are followed."""

MAX_INSTRUCTIONS = 5_000
"""Of a function's byte code: compiling more would take minutes."""

_PURE_BUILTINS = frozenset({"abs", "min", "max", "bool"})


def from_callable(fn: Callable[..., Any]) -> Node:
    """The predicate that this function of two parameters computes; it is compiled, never run per pair.

    >>> from_callable(lambda r, s: r.x <= s.a).op
    'function'
    """
    code = getattr(fn, "__code__", None)
    if not isinstance(code, CodeType):
        raise PredicateError(
            f"on={shown(fn)} is callable but not a plain Python function; wrap it: on=lambda r, s: ..."
        )
    plain = [p for p in inspect.signature(fn).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    starred = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if len(plain) != 2 or code.co_argcount != 2 or code.co_kwonlyargcount or starred:
        names = listed(inspect.signature(fn).parameters) or "none"
        raise PredicateError(
            "a predicate function takes exactly two parameters, one tuple of each side, as in "
            f"lambda r, s: ...; {fn.__name__} takes: {names}"
        )
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise PredicateError(f"the predicate function {fn.__name__} must return a bool, not a generator")
    size = sum(len(part.co_code) // 2 for part in codes(code))
    if size > MAX_INSTRUCTIONS:
        raise PredicateError(
            f"the predicate function {cut(fn.__name__)} has {size:,} instructions, and at most {MAX_INSTRUCTIONS:,} "
            "are compiled; compute parts of it as columns before joining, or put long lists into a table and join that"
        )
    return Node("function", value=fn)


def columns_read(fn: Callable[..., Any], names: dict[str, list[str]]) -> dict[tuple[str, str], bool]:
    """The (side, name) of the columns that the function mentions, by side, and whether that is certain.

    What is read straight from a parameter (`r.x`) is certain, and must exist. Any other attribute in the code
    that is also a column's name counts for both sides: better one column too many than one missing.
    """
    code = fn.__code__
    parameters = dict(zip(code.co_varnames[:2], "rs", strict=True))
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(("STORE_FAST", "STORE_DEREF")):
            stored = instruction.argval
            for name in stored if isinstance(stored, tuple) else (stored,):
                parameters.pop(name, None)
    exact: set[tuple[str, str]] = set()
    loose: set[str] = set()
    for base, attribute in _attributes(code):
        if base in parameters:
            exact.add((parameters[base], attribute))
        else:
            loose.add(attribute)
    for side, name in sorted(exact):
        if name not in names[side]:
            hint = suggest(name, names[side])
            raise SchemaError(f'{side} has no column "{cut(name)}" (in the function {fn.__name__}); {hint}')
    for side in "rs":
        for name in names[side]:
            if names[side].count(name) > 1 and ((side, name) in exact or name in loose):
                raise SchemaError(f'{side} has several columns named "{cut(name)}"; rename all but one first')
    return {
        (side, name): (side, name) in exact
        for side in "rs"
        for name in names[side]
        if (side, name) in exact or name in loose
    }


def codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of all functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def _attributes(code: CodeType) -> Iterator[tuple[str, str]]:
    """(variable, attribute) for every attribute read; the variable is "" unless the read follows its load.

    What is taken out of a global, such as a module, is no column.
    """
    for part in codes(code):
        before, outside = "", False
        # Inside a nested function the parameters' names may mean something else.
        nested = part is not code
        for instruction in dis.get_instructions(part):
            if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                if outside:
                    continue
                yield ("" if nested else before), instruction.argval
            before, outside = "", instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
            if instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
                loaded = instruction.argval
                before = loaded[-1] if isinstance(loaded, tuple) else loaded


def trace(fn: Callable[..., Any]) -> list[Node]:
    """Comparisons that must hold whenever the function returns a true value: hints for fast access.

    The function runs a few times on symbols instead of tuples, once for every way its conditions can turn
    out. What every way to a true answer has in common is necessary. Comparisons that came out false give
    nothing, because NaN makes `not (a < b)` differ from `a >= b`. A function that looks at anything but its
    parameters, plain numbers, functions of math and numpy, and abs, min, max and bool gives no hints: it might not
    answer the same again.

    >>> from streamjoin.predicate.tree import to_sql
    >>> [to_sql(node) for node in trace(lambda r, s: abs(r.x - s.a) <= 10 and r.k == s.k)]
    ['abs(r.x - s.a) <= 10', 'r.k = s.k']
    """
    symbolic = _symbolic(fn)
    if symbolic is None:
        return []
    needed: list[Node] | None = None
    pending: list[list[bool]] = [[]]
    for _ in range(MAX_PATHS):
        if not pending:
            return needed or []
        path = _Path(pending.pop())
        try:
            answer = bool(symbolic(_TracedSide(path, "r"), _TracedSide(path, "s")))
        except Exception:
            return []
        pending.extend(path.untaken())
        if answer:
            held = path.held()
            needed = held if needed is None else [node for node in needed if node in held]
    return []


def _symbolic(fn: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function, with mathematics that takes symbols; None if it looks at what may change."""
    code = fn.__code__
    if any(part is not code for part in codes(code)) or code.co_exceptiontable:
        return None
    try:
        closure = dict(inspect.getclosurevars(fn).nonlocals)
    except ValueError:  # a variable of the surrounding function that has no value yet
        return None
    scope: dict[str, Any] = {}
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if name in fn.__globals__:
                scope[name] = _stand_in(fn.__globals__[name])
            elif name not in _PURE_BUILTINS:
                return None
        elif instruction.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            closure[name] = _stand_in(closure.get(name))
        elif instruction.opname.startswith(("STORE_GLOBAL", "STORE_ATTR", "STORE_DEREF", "IMPORT_NAME")):
            return None
    if any(value is None for value in (*scope.values(), *closure.values())):
        return None
    cells = tuple(CellType(closure[name]) for name in code.co_freevars)
    return FunctionType(code, scope, fn.__name__, fn.__defaults__, cells)


def _stand_in(value: Any) -> Any:
    """What symbols may meet in place of a value from around the function; None if it might change."""
    if type(value) in (int, float, bool):
        return value
    if isinstance(value, ModuleType):
        return _Mathematics(value) if value.__name__ in ("math", "numpy") else None
    if getattr(value, "__module__", None) == "math" or type(value).__name__ == "ufunc":
        return _on_symbols(value)
    return None


class _Mathematics:
    """The module math or numpy: its numbers, and its functions of numbers."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = _stand_in(getattr(self._module, name))
        if found is None:
            raise AttributeError(name)
        return found


def _on_symbols(function: Callable[..., Any]) -> Callable[..., Any]:
    op = next((row.op for row in ROWS if function.__name__ in row.python), None)

    def applied(*args: Any) -> Any:
        symbols = [arg for arg in args if isinstance(arg, _Symbol)]
        if not symbols:
            return function(*args)
        nodes = [_node_of(arg) for arg in args]
        known = [node for node in nodes if node is not None]
        node = Node(op, tuple(known)) if op is not None and len(known) == len(nodes) else None
        return _Symbol(symbols[0]._path, node)

    return applied


class _Path:
    """One way through the function: the outcomes so far decided, then True for every further condition."""

    def __init__(self, prefix: list[bool]) -> None:
        self.prefix = prefix
        self.steps = 0
        self.taken: list[tuple[Node | None, bool]] = []

    def decide(self, condition: Node | None) -> bool:
        if len(self.taken) > MAX_PATHS:
            raise RecursionError("too many conditions")
        at = len(self.taken)
        outcome = self.prefix[at] if at < len(self.prefix) else True
        self.taken.append((condition, outcome))
        return outcome

    def untaken(self) -> Iterator[list[bool]]:
        """The prefixes of the paths that branch off this one after its own prefix."""
        outcomes = [outcome for _, outcome in self.taken]
        for at in range(len(self.prefix), len(outcomes)):
            yield [*outcomes[:at], False]

    def held(self) -> list[Node]:
        return [condition for condition, outcome in self.taken if outcome and condition is not None]


class _TracedSide:
    def __init__(self, path: _Path, side: str) -> None:
        self._path = path
        self._side = side

    def __getattr__(self, name: str) -> _Symbol:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Symbol(self._path, column(self._side, name))


class _Symbol:
    """A value that is not known yet; node None stands for one that no hint can express."""

    def __init__(self, path: _Path, node: Node | None) -> None:
        self._path = path
        self._node = node
        self._outcome: bool | None = None

    __hash__ = None  # type: ignore[assignment]

    def _combine(self, op: str, other: Any, swap: bool = False) -> _Symbol:
        self._path.steps += 1
        if self._path.steps > MAX_STEPS:
            raise RecursionError("too many operations")
        mine, its = self._node, _node_of(other)
        if mine is None or its is None:
            return _Symbol(self._path, None)
        return _Symbol(self._path, Node(op, (its, mine) if swap else (mine, its)))

    def _compare(self, op: str, other: Any) -> _Condition:
        return _Condition(self._path, self._combine(op, other)._node)

    def __bool__(self) -> bool:
        # `a and b` hands back a condition that was already asked: it must answer the same again.
        if self._outcome is None:
            self._outcome = self._path.decide(self._claim())
        return self._outcome

    def _claim(self) -> Node | None:
        """What a true answer tells; nothing for a plain value."""
        return None

    def __add__(self, other: Any) -> _Symbol:
        return self._combine("add", other)

    def __radd__(self, other: Any) -> _Symbol:
        return self._combine("add", other, swap=True)

    def __sub__(self, other: Any) -> _Symbol:
        return self._combine("sub", other)

    def __rsub__(self, other: Any) -> _Symbol:
        return self._combine("sub", other, swap=True)

    def __mul__(self, other: Any) -> _Symbol:
        return self._combine("mul", other)

    def __rmul__(self, other: Any) -> _Symbol:
        return self._combine("mul", other, swap=True)

    def __neg__(self) -> _Symbol:
        return _Symbol(self._path, None if self._node is None else Node("neg", (self._node,)))

    def __abs__(self) -> _Symbol:
        return _Symbol(self._path, None if self._node is None else Node("abs", (self._node,)))

    def _unknown(self, *others: Any) -> _Symbol:
        return _Symbol(self._path, None)

    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _unknown
    __pow__ = __rpow__ = __lshift__ = __rshift__ = _unknown

    def __eq__(self, other: object) -> _Condition:  # type: ignore[override]
        return self._compare("eq", other)

    def __ne__(self, other: object) -> _Condition:  # type: ignore[override]
        return _Condition(self._path, None)

    def __lt__(self, other: Any) -> _Condition:
        return self._compare("lt", other)

    def __le__(self, other: Any) -> _Condition:
        return self._compare("le", other)

    def __gt__(self, other: Any) -> _Condition:
        return self._compare("gt", other)

    def __ge__(self, other: Any) -> _Condition:
        return self._compare("ge", other)


def _node_of(value: Any) -> Node | None:
    if isinstance(value, _Symbol):
        return None if isinstance(value, _Condition) else value._node
    # A bool is left out: `r.x <= True` is legal Python and not worth a hint.
    return literal(value) if type(value) in (int, float) else None


class _Condition(_Symbol):
    """The outcome of a comparison: asking for its truth decides which path is followed."""

    def _claim(self) -> Node | None:
        return self._node

    def __and__(self, other: Any) -> bool:
        return bool(self) and bool(other)

    def __or__(self, other: Any) -> bool:
        return bool(self) or bool(other)

    __rand__ = __and__
    __ror__ = __or__

    def _combine(self, op: str, other: Any, swap: bool = False) -> _Symbol:
        return _Symbol(self._path, None)

    def __neg__(self) -> _Symbol:
        return self._unknown()

    def __abs__(self) -> _Symbol:
        return self._unknown()
