"""Hostile predicates: whatever is written is answered rightly, or refused by name, in a bounded amount of work.

Work is counted, not timed: how much code is emitted for a predicate. The code is Python, so that most of it is run here
as it is, on a few rows; compiling takes a second each and is done for a sample.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import pickle
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streamjoin as sj
from streamjoin import r, s
from streamjoin.codegen.emit import MAX_CODE, Emitter
from streamjoin.codegen.program import Program
from streamjoin.codegen.values import Slot
from streamjoin.errors import OptionError, PredicateError, SchemaError, StreamjoinError, WindowError
from streamjoin.options import Options, from_text
from streamjoin.plan.plan import make_plan
from streamjoin.predicate import as_tree
from streamjoin.predicate.analysis import analyse
from streamjoin.predicate.function import trace
from streamjoin.predicate.resolve import resolve
from streamjoin.predicate.tree import LONGEST_TEXT, Node, bottom_up, identity, to_sql
from streamjoin.windows.interval import Interval
from streamjoin.windows.tumbling import Tumbling

R = pa.schema(
    [
        ("x", pa.int64()),
        ("y", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(10, 2)),
        ("k", pa.string()),
        ("b", pa.binary()),
        ("t", pa.int64()),
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
    ]
)
S = pa.schema(
    [("a", pa.int64()), ("b", pa.float64()), ("k", pa.string()), ("t", pa.int64()), ("at", pa.timestamp("us"))]
)
LONGEST_MESSAGE = 1_000
NINES = "9" * 5_000

Value = Callable[[Any, Any], Any]
Part = tuple[str, Value]  # SQL text, and what it means for values of r.x and s.a


def refusal(kind: type[StreamjoinError] | tuple[type[BaseException], ...], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert len(text) <= LONGEST_MESSAGE, len(text)
    assert text.isprintable()
    return text


def plan(on: Any = "r.x < s.a", **options: Any) -> Any:
    made = make_plan(R, S, Options(**({"on": on, "within": 10, "time": "t"} | options)))
    made.program().match_text("r")
    return made


def emitted(predicate: Node) -> tuple[list[str], str]:
    """The code for a resolved predicate over r.x and s.a, and the name of its truth."""
    slots = {("r", "x"): Slot("p[0][i]", "p[1][i]"), ("s", "a"): Slot("w[0][j]", "w[1][j]")}
    emitter = Emitter(slots, indent="")
    return emitter.lines, emitter.truth(predicate).code


def size(on: Any) -> int:
    return sum(len(line) for line in emitted(resolve(as_tree(on), R, S))[0])


def _checked(operation: Callable[[int, int], int]) -> Callable[[Any, Any], tuple[Any, bool]]:
    def run(a: Any, b: Any) -> tuple[Any, bool]:
        exact = operation(int(a), int(b))
        fits = -(2**63) <= exact < 2**63
        return np.int64(exact if fits else 0), not fits

    return run


HELPERS = {
    "np": np,
    "add_checked": _checked(int.__add__),
    "sub_checked": _checked(int.__sub__),
    "mul_checked": _checked(int.__mul__),
    "to_int64": np.int64,  # of numbers that fit
    "truncated_div": lambda a, b: np.int64(int(a) // int(b) if (a < 0) == (b < 0) else -(-int(a) // int(b))),
}
VALUES = (None, -2, 0, 1, 5)


def check(on: Any, meaning: Value) -> None:
    """The emitted code says what the predicate means, for all pairs of a few values."""
    lines, truth = emitted(resolve(as_tree(on), R, S))
    code = compile("\n".join(lines), "emitted", "exec")
    for x, a in itertools.product(VALUES, repeat=2):
        scope: dict[str, Any] = dict(HELPERS) | {"i": 0, "j": 0}
        scope["p"] = ([np.int64(x or 0)], [x is not None])
        scope["w"] = ([np.int64(a or 0)], [a is not None])
        with np.errstate(all="ignore"):
            exec(code, scope)
            assert bool(eval(truth, scope)) == (meaning(x, a) is True), (to_sql(as_tree(on), 300), x, a)


def _null(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL if an argument is."""
    return lambda *args: None if None in args else function(*args)


def _and(a: Any, b: Any) -> Any:
    return False if a is False or b is False else None if a is None or b is None else True


def _or(a: Any, b: Any) -> Any:
    return True if a is True or b is True else None if a is None or b is None else False


def _not(a: Any) -> Any:
    return None if a is None else not a


def _in(value: Any, *options: Any) -> Any:
    answer: Any = False
    for option in options:
        answer = _or(answer, _null(lambda a, b: a == b)(value, option))
    return answer


def _extreme(best: Callable[..., int]) -> Callable[..., Any]:
    def choose(*args: Any) -> Any:
        known = [arg for arg in args if arg is not None]
        return best(known) if known else None

    return choose


def _apply(function: Callable[..., Any], *parts: Part) -> Value:
    return lambda x, a: function(*(meaning(x, a) for _, meaning in parts))


class Hostile:
    """Grammatical predicates that use their parts several times, in each other, as deep as is read."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def leaf(self) -> Part:
        number = self.rng.randint(-3, 6)
        columns: list[Part] = [("r.x", lambda x, a: x), ("s.a", lambda x, a: a)]
        constants: list[Part] = [(str(number), lambda x, a: number), ("NULL", lambda x, a: None)]
        return self.rng.choice(columns * 3 + constants)

    def column(self) -> Part:
        return self.rng.choice([("r.x", lambda x, a: x), ("s.a", lambda x, a: a)])

    def number(self, depth: int, limit: int) -> Part:
        """Around one deep part; the others are small."""
        part = self.column()
        for _ in range(depth):
            other, wrapped = self.leaf(), self.wrap(part)
            part = wrapped if len(wrapped[0]) < limit else part
            if self.rng.random() < 0.2 and len(part[0]) < limit:
                part = (f"coalesce({other[0]}, {part[0]})", _apply(lambda o, p: p if o is None else o, other, part))
        return part

    def wrap(self, part: Part) -> Part:
        rng, other, third = self.rng, self.leaf(), self.leaf()
        text, a, b = part[0], other[0], third[0]
        condition = self.condition(part)
        forms: list[Callable[[], Part]] = [
            lambda: (f"nullif({text}, {a})", _apply(lambda p, o: None if o is not None and p == o else p, part, other)),
            lambda: (f"coalesce({text}, {a})", _apply(lambda p, o: o if p is None else p, part, other)),
            lambda: (f"if({condition[0]}, {a}, {b})", _apply(_if, condition, other, third)),
            lambda: (f"CASE WHEN {condition[0]} THEN {text} ELSE {a} END", _apply(_if, condition, part, other)),
            lambda: (f"CASE {text} WHEN 1 THEN {a} WHEN {b} THEN 2 ELSE {text} END", _apply(_case, part, other, third)),
            lambda: (f"greatest({text}, {a})", _apply(_extreme(max), part, other)),
            lambda: (f"least({a}, {text})", _apply(_extreme(min), part, other)),
            lambda: (f"abs({text})", _apply(_null(abs), part)),
            lambda: (f"(({text} + {a}) % 7)", _apply(_null(_mod7), part, other)),
            lambda: (f"CAST(CAST({text} AS bigint) AS bigint)", part[1]),
            lambda: (f"({text})", part[1]),
        ]
        if part[0] == "NULL":
            return part
        return rng.choice(forms)()

    def condition(self, part: Part) -> Part:
        rng, low, high = self.rng, self.leaf(), self.leaf()
        text = part[0]
        forms: list[Callable[[], Part]] = [
            lambda: (f"{text} BETWEEN {low[0]} AND {high[0]}", _apply(_between, part, low, high)),
            lambda: (f"NOT ({text} IN ({low[0]}, 2, {high[0]}))", _apply(_not_in, part, low, high)),
            lambda: (f"{text} <= {low[0]}", _apply(_null(lambda p, q: p <= q), part, low)),
            lambda: (f"({text}) IS NULL", _apply(lambda p: p is None, part)),
            lambda: (f"{text} <=> {low[0]}", _apply(lambda p, q: p == q, part, low)),
        ]
        return rng.choice(forms)()

    def predicate(self, depth: int, limit: int) -> Part:
        parts = [self.condition(self.number(depth, limit)) for _ in range(self.rng.choice((1, 1, 2, 5)))]
        text, meaning = parts[0]
        for other, its in parts[1:]:
            word, combine = self.rng.choice((("AND", _and), ("OR", _or)))
            text = f"({text}) {word} ({other})"
            meaning = _apply(combine, ("", meaning), ("", its))
        for _ in range(self.rng.choice((0, 0, 3))):
            text, meaning = f"NOT ({text})", _apply(_not, ("", meaning))
        return text, meaning


def _if(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition is True else no


def _case(value: Any, first: Any, second: Any) -> Any:
    return first if value == 1 else 2 if second is not None and value == second else value


def _mod7(a: int, b: int) -> int:
    return int(np.fmod(a + b, 7))


def _between(value: Any, low: Any, high: Any) -> Any:
    return _and(_null(lambda p, q: p >= q)(value, low), _null(lambda p, q: p <= q)(value, high))


def _not_in(value: Any, low: Any, high: Any) -> Any:
    return _not(_in(value, low, 2, high))


@given(st.integers(0, 2**32), st.integers(1, 25))
@example(0, 40)
def test_hostile_text_is_answered_or_refused(seed: int, depth: int) -> None:
    text, meaning = Hostile(Random(seed)).predicate(depth, 3_000)
    try:
        tree = as_tree(text)
        typed = resolve(tree, R, S)
    except PredicateError as error:
        assert len(str(error)) <= LONGEST_MESSAGE  # noqa: PT017
        return
    assert len(bottom_up(tree)) <= len(text)
    assert len(emitted(typed)[0]) <= 20 * len(bottom_up(typed))
    check(text, meaning)


def test_the_grammar_is_hostile_enough() -> None:
    """Most of what is drawn is answered, and much of it would be huge with every use of a part written out."""
    answered = grown = 0
    for seed in range(30):
        text, _ = Hostile(Random(seed)).predicate(16, 3_000)
        try:
            typed = resolve(as_tree(text), R, S)
        except PredicateError:
            continue
        answered += 1
        grown += len(to_sql(typed, 20_000)) > 5 * len(text)
    assert answered >= 15
    assert grown >= 3


def deep(form: str, depth: int, start: str = "r.x") -> str:
    text = start
    for _ in range(depth):
        text = form.replace("@", text)
    return text


FORMS = {
    "nullif": "nullif(@, s.a)",
    "nullif-turned": "nullif(s.a, @)",
    "case": "CASE @ WHEN 1 THEN 2 ELSE s.a END",
    "case-in-case": "CASE WHEN @ = 1 THEN 5 ELSE s.a END",
    "between-in-if": "if(@ BETWEEN 1 AND s.a, 1, 2)",
    "in": "if(@ IN (1, 2, s.a), 1, s.a)",
    "coalesce": "coalesce(@, r.x + s.a)",
    "least": "least(@, greatest(s.a, 1))",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_code_grows_with_the_text(form: str) -> None:
    ten, twenty, thirty = (size(deep(form, depth) + " < s.a") for depth in (10, 20, 30))
    assert thirty - twenty <= 2 * (twenty - ten) + 200
    assert thirty < 12_000


def test_thirty_deep_is_joined() -> None:
    """The issue's own: compiled, and right."""
    left = pa.table({"rid": range(6), "x": [0, 1, 2, 3, 4, None], "t": [0] * 6})
    right = pa.table({"sid": range(3), "a": [1, 3, 40], "t": [0] * 3})
    text = "r.x"
    for k in range(30):
        text = f"nullif({text}, {k % 3})"
    text = deep("if(@ BETWEEN 1 AND s.a, 1, 2)", 12) + f" = 1 AND {text} <= s.a"
    got = sj.join(left, right, on=text, within=0, time="t")

    def meaning(x: Any, a: int) -> bool:
        chosen = x
        for _ in range(12):
            chosen = 1 if chosen is not None and 1 <= chosen <= a else 2
        return chosen == 1 and x is not None and x not in (0, 1, 2) and x <= a

    pairs = itertools.product(left.to_pylist(), right.to_pylist())
    want = {(p["rid"], q["sid"]) for p, q in pairs if meaning(p["x"], q["a"])}
    assert want
    assert set(zip(got["rid"].to_pylist(), got["sid"].to_pylist(), strict=True)) == want


def again(times: int, step: Callable[[Any], Any], start: Any) -> Any:
    for _ in range(times):
        start = step(start)
    return start


def test_shared_expressions_are_computed_once() -> None:
    doubled = again(40, lambda e: e + e, r.x)
    assert size(doubled > s.a) < 8_000
    check(again(6, lambda e: e + e, r.x) > s.a, _null(lambda x, a: 64 * x > a))
    check(again(30, lambda e: sj.when(e > 1, e).otherwise(e), r.x) > s.a, _null(lambda x, a: x > a))
    both = again(40, lambda e: e & e, (r.x > s.a) & (r.x > 0))
    assert size(again(40, lambda e: e | e, both)) < MAX_CODE
    assert "r.x" in repr(doubled)
    assert len(repr(doubled)) < 11_000
    assert plan(again(40, lambda e: e + e, r.y - s.b) < 1).access == "scan"


LARGE: dict[str, Callable[[], Any]] = {
    "sum": lambda: again(10_000, lambda e: e + 1, r.x) > s.a,
    "checked sum": lambda: again(1_000, lambda e: e + s.a, r.x) > s.a,
    "not": lambda: again(10_000, lambda e: ~e, r.x > s.a),
    "isin": lambda: r.x.isin(range(100_000)),
    "in": lambda: "r.x IN (" + ",".join(map(str, range(1_500))) + ")",
}


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_what_is_too_large_to_compile_is_refused(make: Callable[[], Any]) -> None:
    on = make()
    text = refusal(PredicateError, lambda: plan(on))
    assert "at most" in text
    assert "before joining" in text


@pytest.mark.parametrize(
    "on",
    [
        "r.x IN (" + ",".join(map(str, range(200))) + ") AND r.x < s.a",
        "r.x - s.a IN (" + ",".join(map(str, range(200))) + ")",
        "CASE r.x + s.a " + " ".join(f"WHEN {k} THEN {k + 1}" for k in range(50)) + " END = 5",
        " OR ".join(f"(r.x = {k} AND s.a = {k})" for k in range(150)),
    ],
    ids=["in", "in of a pair", "case", "or"],
)
def test_what_people_write_lies_far_inside(on: str) -> None:
    assert size(on) < 0.75 * MAX_CODE
    plan(on)


def test_a_function_that_is_too_large() -> None:
    scope: dict[str, Any] = {}
    exec("def f(r, s):\n v = r.x\n" + " v = v * 3 + s.a\n" * 5_000 + " return v > 3\n", scope)
    assert "instructions" in refusal(PredicateError, lambda: plan(scope["f"]))


def test_a_function_with_a_long_loop_gives_no_hints() -> None:
    def loops(r: Any, s: Any) -> Any:
        total, rounds = r.x, 0
        while rounds < 10**9:
            total, rounds = total + s.a, rounds + 1
        return total > 3

    assert trace(loops) == []


def test_a_deep_tree_is_pickled_compared_and_named() -> None:
    def nullif(e: Any) -> Any:
        return sj.when(e == 3, None).otherwise(e)

    one, other = (resolve(as_tree(again(120, nullif, r.x) < s.a), R, S) for _ in range(2))
    changed = resolve(as_tree(again(120, nullif, r.x + 1) < s.a), R, S)
    assert one == other
    assert pickle.loads(pickle.dumps(one)) == one
    assert len(pickle.dumps(one)) < 50_000
    assert len(to_sql(one)) == LONGEST_TEXT + 3
    assert identity(one) == identity(other) != identity(changed)
    assert Node("literal", value=1) != Node("literal", value=True)
    assert Node("literal", value=0.0) != Node("literal", value=-0.0)


def test_a_long_sum_gets_as_much_slack_as_it_has_roundings() -> None:
    """100 roundings of singles are more than the slack for a few: the box must not deny what the test accepts."""
    few = analyse(resolve(as_tree(r.f - s.a * 1.0 <= 5), R, S)).dimensions[0]
    many = analyse(resolve(as_tree(again(100, lambda e: e + 0.1, r.y - s.b) <= 5), R, S)).dimensions[0]
    ends = [few.low("r"), many.low("r")]
    assert [end is not None and end.slack for end in ends] == [2.0**-20, 2.0**-48 * 13]


TEXTS = {
    "digits": f"r.x < {NINES}",
    "negative digits": f"r.x < -{NINES}",
    "fraction": f"r.y < 1.{'9' * 4_000}",
    "exponent": "r.y < 1e999999999",
    "long exponent": f"r.y < 1e{NINES}",
    "double": "r.y < 1e400D",
    "decimal": "r.d < 1e999999999BD",
    "long decimal": f"r.d < {NINES}BD",
    "bigint": f"r.x < {NINES}L",
    "39 digits": "r.d < 0." + "1" * 39,
    "cast to bigint": f"r.x < CAST('{NINES}' AS bigint)",
    "cast to decimal": "r.d < CAST('1e999999999' AS decimal(10,2))",
    "cast to a long type": f"CAST(r.d AS decimal(38,{NINES})) = 1",
    "interval": "r.at < s.at + INTERVAL '9999999999999999999' DAY",
    "interval of digits": f"r.at < s.at + INTERVAL '{NINES}' DAY",
    "interval of a fraction": f"r.at < s.at + INTERVAL '0.{'1' * 5_000}' SECOND",
    "interval of letters": f"r.at < s.at + INTERVAL '1 {'q' * 5_000}'",
    "span": f"r.at < s.at + INTERVAL '{'9' * 190}:00' HOUR TO MINUTE",
    "timestamp": f"r.at < TIMESTAMP '{NINES}-01-01'",
    "zone": f"r.at < TIMESTAMP '2020-01-01 00:00:00 {'Z' * 5_000}'",
    "zone outside": "r.at < TIMESTAMP '2020-01-01 00:00:00 ../../etc/passwd'",
    "instant before year 1": "CAST(r.at AS timestamp) < TIMESTAMP '0001-01-01 00:00:00+14:00'",
    "date": "r.day < DATE '99999-01-01'",
    "text": f"r.k < '{'x' * 9_000}'",
    "surrogate": "r.k = '\ud800'",
    "name": f"r.{'n' * 9_000} = 1",
    "side": f"{'q' * 9_000}.x = 1",
    "function": f"f{'o' * 9_000}(r.x) = 1",
    "parameter": f"r.x = :{'p' * 9_000}",
    "comment": f"r.x = 1 -- {'c' * 9_000}",
    "type": f"CAST(r.x AS {'t' * 9_000}) = 1",
    "NUL": "r.x < \0 5",
    "digits that are none": "r.x = ²",
    "turned text": "r.\u202ex = 1",
    "escape": "r.k < '\x1b[2J'",
    "like": f"r.k LIKE '%{'a' * 9_000}%'",
    "statement": f"SELECT {'x' * 9_000}",
    "long": "r.x = 1 AND " * 10_000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_absurd_text(text: str) -> None:
    refusal((PredicateError, SchemaError), lambda: plan(text))


def test_tiny_and_long_constants_that_are_valid() -> None:
    for text in ("r.f < CAST('1e-999999999' AS float)", "r.y < 1e-999999999", f"r.k = '{'x' * 9_000}'", "r.k = 'a\0b'"):
        plan(text)
    plan(r.k == "x" * 10**6)
    minus = resolve(as_tree("r.d < -1.2345678901234567890123456789012345"), R, S)
    assert minus == resolve(as_tree(r.d < Decimal("-1.2345678901234567890123456789012345")), R, S)
    value: Any = as_tree("r.d < -1.2345678901234567890123456789012345").args[1].value
    assert value.as_tuple().digits[-1] == 5


def test_the_users_decimal_context_changes_nothing() -> None:
    texts = ("r.d < 12345.67", "r.d = -99999999.99", "r.d < 12345.67 * 100.01")
    before = [resolve(as_tree(text), R, S) for text in texts]
    with decimal.localcontext() as context:
        context.prec = 3
        assert [resolve(as_tree(text), R, S) for text in texts] == before
        assert plan(within="123456789 seconds", time="at").window == plan(within="123456789 s", time="at").window
        assert plan(within="123456789 seconds", time="at").window.upper == 123456789 * 10**6


EXPRESSIONS: dict[str, Callable[[], Any]] = {
    "int": lambda: r.x < 10**5_000,
    "negative int": lambda: r.x < -(10**5_000),
    "decimal": lambda: r.d < Decimal("1e999999999"),
    "small decimal": lambda: r.d < Decimal("1e-999999999"),
    "long decimal": lambda: r.d < Decimal(NINES),
    "decimal NaN": lambda: r.d < Decimal("NaN"),
    "text": lambda: r.k < "x" * 10**6,
    "surrogate": lambda: r.k == "\ud800",
    "bytes": lambda: r.b < b"x" * 10**6,
    "name": lambda: r["n" * 10**5] == 1,
    "NUL": lambda: r["a\0b"] == 1,
    "interval": lambda: r.at - s.at < dt.timedelta.max,
    "type": lambda: r.x.cast("x" * 10**5) < 1,
    "list": lambda: [10**5_000] * 1_000,
    "number": lambda: 10**5_000,
}


@pytest.mark.parametrize("make", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_absurd_expressions(make: Callable[[], Any]) -> None:
    refusal((PredicateError, SchemaError), lambda: plan(make()))


def test_absurd_operands_of_expressions() -> None:
    for make in (lambda: r.x == [1] * 10**6, lambda: r.x.isin("x" * 10**6), lambda: (r.x < s.a) & ("y" * 10**6)):
        refusal((TypeError,), make)
    for e in (r.d < Decimal("1e999999999"), r.x < 10**5_000):
        assert len(repr(e)) < 100


WINDOWS: dict[str, Any] = {
    "exponent": "1e400 seconds",
    "digits": NINES + " days",
    "39 digits": "9" * 39 + " days",
    "fraction": "0." + "1" * 39 + " s",
    "text": "x" * 10**6,
    "many": "5 s" * 10**5,
    "NUL": "\0",
    "int": 10**5_000,
    "negative": -(10**5_000),
    "30 digits": 10**30,
    "infinity": float("inf"),
    "decimal": Decimal("1e999999999"),
    "list": [10**5_000],
    "interval": sj.interval(10**5_000, -(10**5_000)),
    "long interval": sj.interval(-(10**30), 10**30),
    "tumbling": sj.tumbling(10**5_000),
}


@pytest.mark.parametrize("time", ["t", "at"])
@pytest.mark.parametrize("within", WINDOWS.values(), ids=WINDOWS)
def test_absurd_windows(within: Any, time: str) -> None:
    refusal(WindowError, lambda: plan(within=within, time=time))
    if not isinstance(within, (Interval, Tumbling)):
        options: dict[str, Any] = {"on": "r.x < s.a", "within": 10 if time == "t" else "10 s", "time": time}
        refusal(WindowError, lambda: sj.Join(r=R, s=S, max_delay=within, **options))


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("time", "x" * 10**5, SchemaError),
        ("time", 10**5_000, SchemaError),
        ("time", ["\0"] * 10**5, SchemaError),
        ("suffixes", "x" * 10**6, SchemaError),
        ("suffixes", (10**5_000, 1), SchemaError),
        ("suffixes", ("x" * 10**5, "x" * 10**5), SchemaError),
        ("rate", 10**5_000, OptionError),
        ("rate", float("inf"), OptionError),
        ("rate", 1e308, OptionError),
        ("rate", (1, 10**400), OptionError),
        ("rate", "x" * 10**6, OptionError),
        ("algorithm", "x" * 10**6, OptionError),
        ("algorithm", 10**5_000, OptionError),
        ("access", 10**5_000, OptionError),
        ("workers", 10**5_000, OptionError),
        ("workers", "x" * 10**6, OptionError),
        ("layout", (10**5_000, 10**5_000), OptionError),
        ("memory", 10**5_000, OptionError),
    ],
    ids=itertools.count(),
)
def test_absurd_options(name: str, value: Any, kind: type[StreamjoinError]) -> None:
    refusal(kind, lambda: plan(**{name: value}))


@pytest.mark.parametrize(
    "text",
    [NINES, f"last {NINES}", f"tumbling {NINES} rows", f"{NINES}..{NINES}", f"last r={NINES},s=1", "x" * 10**6],
    ids=itertools.count(),
)
def test_absurd_windows_on_the_command_line(text: str) -> None:
    refusal((OptionError, WindowError), lambda: from_text("within", text))


def test_no_message_is_long() -> None:
    """What one place forgets to shorten, the error itself does, and keeps the remedy at its end."""
    text = str(PredicateError("wrong: " + "x" * 10**6 + "; write it otherwise"))
    assert len(text) <= 2_000
    assert text.startswith("wrong: ")
    assert text.endswith("; write it otherwise")


def test_texts_of_programs_stay_small() -> None:
    program = Program(analyse(resolve(as_tree(deep("nullif(@, s.a)", 30) + " < s.a"), R, S)))
    assert all(len(text) < 1_000 for text in program.faults)
    assert sum(len(program.match_text(side)) for side in "rs") < 2 * MAX_CODE
