"""The table of operations: complete, and every function means what Spark documents, judged by Python and by Spark."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamjoin as sj
from spark_rows import spark_rows
from streamjoin.codegen.emit import Emitter
from streamjoin.codegen.program import Program
from streamjoin.device.opencl_text import Source
from streamjoin.errors import PredicateError
from streamjoin.predicate import as_tree
from streamjoin.predicate.analysis import analyse
from streamjoin.predicate.operations import FUNCTIONS, OPERATIONS, PUBLIC, ROWS, Operation
from streamjoin.predicate.resolve import RULES, resolve
from streamjoin.predicate.sql import parse
from streamjoin.predicate.tree import to_sql, walk
from streamjoin.testing.truth import evaluate_all

Number = float | None


def quiet(f: Callable[..., float], beyond: Callable[..., float] = lambda *_: math.inf) -> Callable[..., Number]:
    """A function of `math` with the answers of IEEE 754 where Python raises, and null of null."""

    def answer(*args: Number) -> Number:
        given = [arg for arg in args if arg is not None]
        if len(given) < len(args):
            return None
        try:
            return f(*given)
        except ValueError:
            return math.nan
        except OverflowError:
            return beyond(*given)

    return answer


def logarithm(f: Callable[[float], float], asymptote: float = 0.0) -> Callable[[Number], Number]:
    return lambda x: None if x is None or x <= asymptote else f(x)


def half_up(x: float) -> float:
    """Spark's own way: by the decimal digits of the number."""
    if not math.isfinite(x):
        return x
    return float(Decimal(repr(x)).quantize(Decimal(1), ROUND_HALF_UP, Context(prec=400)))


def java_power(x: float, y: float) -> float:
    if math.isnan(y) or (abs(x) == 1 and math.isinf(y)):
        return math.nan
    if x == 0 and y < 0 and not math.isinf(y):
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    return math.pow(x, y)


def too_large(x: float, y: float) -> float:
    return -math.inf if x < 0 and y % 2 == 1 else math.inf


def log_to_base(x: Number, y: Number) -> Number:
    if x is None or y is None or x <= 0 or y <= 0:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(math.log(y)) / np.float64(math.log(x)))


def positive_rest(x: Number, y: Number) -> Number:
    if x is None or y is None or y == 0:
        return None
    rest = quiet(math.fmod)(x, y)
    return quiet(math.fmod)(rest + y, y) if rest is not None and rest < 0 else rest


MEANT: dict[str, Callable[..., Number]] = {
    "abs(x)": quiet(abs),
    "negative(x)": quiet(lambda x: -x),
    "positive(x)": quiet(lambda x: x),
    "mod(x, y)": lambda x, y: None if y == 0 else quiet(math.fmod)(x, y),
    "pmod(x, y)": positive_rest,
    "least(x, y)": lambda x, y: min((v for v in (x, y) if v is not None), key=above_all, default=None),
    "greatest(x, y)": lambda x, y: max((v for v in (x, y) if v is not None), key=above_all, default=None),
    "coalesce(x, y)": lambda x, y: y if x is None else x,
    "nvl(x, y)": lambda x, y: y if x is None else x,
    "ifnull(x, y)": lambda x, y: y if x is None else x,
    "nvl2(x, y, 2D)": lambda x, y: 2.0 if x is None else y,
    "nullif(x, y)": lambda x, y: None if same(x, y) and x is not None else x,
    "if(x > y, x, y)": lambda x, y: x if None not in (x, y) and above_all(x) > above_all(y) else y,
    "if(isnull(x), 1D, 0D)": lambda x: float(x is None),
    "if(isnotnull(x), 1D, 0D)": lambda x: float(x is not None),
    "if(equal_null(x, y), 1D, 0D)": lambda x, y: float(same(x, y)),
    "if(isnan(x), 1D, 0D)": lambda x: float(x is not None and math.isnan(x)),
    "CAST(floor(x) AS double)": quiet(lambda x: saturated(math.floor, x)),
    "CAST(ceil(x) AS double)": quiet(lambda x: saturated(math.ceil, x)),
    "CAST(ceiling(x) AS double)": quiet(lambda x: saturated(math.ceil, x)),
    "round(x)": quiet(half_up),
    "rint(x)": quiet(lambda x: float(np.rint(x))),
    "sign(x)": quiet(lambda x: float(np.sign(x))),
    "signum(x)": quiet(lambda x: float(np.sign(x))),
    "sqrt(x)": quiet(math.sqrt),
    "radians(x)": quiet(math.radians),
    "degrees(x)": quiet(math.degrees),
    "pi()": lambda: math.pi,
    "power(x, y)": quiet(java_power, too_large),
    "pow(x, y)": quiet(java_power, too_large),
    "hypot(x, y)": quiet(lambda x, y: float(np.hypot(x, y))),
    "exp(x)": quiet(math.exp),
    "expm1(x)": quiet(math.expm1),
    "ln(x)": logarithm(math.log),
    "log(x)": logarithm(math.log),
    "log(x, y)": log_to_base,
    "log2(x)": logarithm(lambda x: math.log(x) / math.log(2)),
    "log10(x)": logarithm(math.log10),
    "log1p(x)": logarithm(math.log1p, -1.0),
    "sin(x)": quiet(math.sin),
    "cos(x)": quiet(math.cos),
    "tan(x)": quiet(math.tan),
    "asin(x)": quiet(math.asin),
    "acos(x)": quiet(math.acos),
    "atan(x)": quiet(math.atan),
    "atan2(x, y)": quiet(lambda x, y: math.atan2(x + 0.0, y + 0.0)),
    "sinh(x)": quiet(math.sinh, lambda x: math.copysign(math.inf, x)),
    "cosh(x)": quiet(math.cosh),
    "tanh(x)": quiet(math.tanh),
}


def same(a: Number, b: Number) -> bool:
    return a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))


def above_all(x: Number) -> tuple[bool, float]:
    """The order of SQL: NaN is above every number."""
    assert x is not None
    return (math.isnan(x), 0.0 if math.isnan(x) else x)


def saturated(f: Callable[[float], int], x: float) -> float:
    if math.isnan(x):
        return 0.0
    return math.copysign(2.0**63, x) if math.isinf(x) or abs(x) >= 2.0**63 else float(f(x))


EDGES: list[Number] = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, 1.5, -2.5]
EDGES += [0.49999999999999994, 4503599627370495.5, -4503599627370495.5, 5e-324, 1e300, -1e300, 1e-9, 710.0]


def arguments() -> list[tuple[Number, Number]]:
    rng = Random(3)
    some = [(rng.gauss(0, 1) * 10 ** rng.randint(-3, 3), rng.uniform(-1, 1)) for _ in range(100)]
    return [*itertools.product(EDGES, EDGES), *some, *((y, x) for x, y in some)]


def expected(text: str) -> list[Number]:
    meant = MEANT[text]
    used = [name for name in "xy" if f"({name}" in text or f" {name}" in text]
    return [meant(*(pair["xy".index(name)] for name in used)) for pair in arguments()]


def table(**more: list[Number]) -> pa.Table:
    x, y = map(list, zip(*arguments(), strict=True))
    columns = {name: pa.array(values, pa.float64()) for name, values in {"x": x, "y": y, **more}.items()}
    return pa.table({"id": range(len(x)), **columns})


def test_every_function_of_the_table_is_tested() -> None:
    tested = {text.removeprefix("CAST(").removeprefix("if(").partition("(")[0] for text in MEANT} | {"if"}
    assert set(FUNCTIONS) <= tested


def test_every_function_means_what_spark_documents() -> None:
    texts = list({parse(text): text for text in MEANT}.values())  # other names of one function need no code
    left = table()
    right = table(**{f"e{k}": expected(text) for k, text in enumerate(texts)}).drop_columns(["x", "y"])
    several = [range(k, min(k + 10, len(texts))) for k in range(0, len(texts), 10)]  # a predicate takes long to compile
    trees = [as_tree(" AND ".join(f"({texts[k]}) <=> s.e{k}" for k in some) + " AND r.id = s.id") for some in several]
    for some, truth in zip(several, evaluate_all(trees, left.schema, right.schema, left, right), strict=True):
        wrong = np.flatnonzero(~np.diagonal(truth))
        meant = [(arguments()[i], {texts[k]: right[f"e{k}"][i] for k in some}) for i in wrong[:3]]
        assert not len(wrong), f"for one of these functions, something else comes out: {meant}"


def ulps(a: Number, b: Number) -> float:
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return 0.0 if same(a, b) else math.inf
    return abs(a - b) / math.ulp(max(abs(a), abs(b)))


def exact(text: str) -> bool:
    return all(OPERATIONS[node.op].exact for node in walk(parse(text)) if node.op in OPERATIONS)


@pytest.mark.spark
def test_every_function_is_sparks(spark: Any) -> None:
    """To the last bit if IEEE 754 fixes it, else within two units in the last place; nulls and NaN as they are."""
    answer = spark_rows(spark, table()).selectExpr("id", *(f"{text} AS e{k}" for k, text in enumerate(MEANT))).toArrow()
    answer = answer.sort_by("id")
    different = []
    for k, text in enumerate(MEANT):
        for given, ours, theirs in zip(arguments(), expected(text), answer[f"e{k}"].to_pylist(), strict=True):
            if ulps(ours, theirs) > (0 if exact(text) else 2):
                different.append((text, given, ours, theirs))
    assert different == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.op)
def test_rows_are_complete(row: Operation) -> None:
    assert row.rule in RULES
    emitted = row.code or hasattr(Emitter, f"_{row.op}")
    assert emitted or row.op == "in", "neither a template nor a method that emits it"
    for other in filter(None, (row.negated, row.mirrored)):
        assert OPERATIONS[other].rule == "comparison"
    if row.negated:
        assert OPERATIONS[row.negated].negated == row.op


@pytest.mark.parametrize("name", PUBLIC)
def test_expressions_have_the_same_functions(name: str) -> None:
    count = min(FUNCTIONS[name][0].arity[0], 2) or 1
    args = [sj.r.x, sj.s.y][:count]
    text = f"{name}({', '.join(['r.x', 's.y'][:count])}) = 1"
    assert as_tree(getattr(sj, name)(*args) == 1) == parse(text)


def test_python_has_spellings_of_its_own() -> None:
    assert as_tree(sj.r.x**2 <= 2**sj.s.y) == parse("power(r.x, 2) <= power(2, s.y)")
    assert as_tree(round(sj.r.x) == sj.s.y) == parse("round(r.x) = s.y")
    with pytest.raises(TypeError, match=r"round\(x \* 100\) / 100"):
        round(sj.r.x, 2)


NUMBERS = pa.schema([("i", pa.int16()), ("f", pa.float32()), ("d", pa.float64()), ("c", pa.decimal128(5, 2))])


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("round(r.i) = 1", "r.i = 1S"),
        ("round(r.f) = 1F", "CAST(round(CAST(r.f AS double)) AS float) = 1.0F"),
        ("sin(r.i) < 1D", "sin(CAST(r.i AS double)) < 1.0D"),
        ("r.d <= radians(180)", f"r.d <= {math.pi}D"),
        ("r.d <= ln(-1)", "r.d <= NULL"),
        ("r.d <= log2(8) + exp(0)", "r.d <= 4.0D"),
        ("r.d <= asin(2)", "r.d <= asin(2.0D)"),  # NaN has no text as a double constant in Python's mathematics
        ("r.d < sqrt(4)", "r.d < sqrt(4.0D)"),  # as in the signatures of checkpoints
    ],
)
def test_types_and_constants(text: str, typed: str) -> None:
    assert to_sql(resolve(parse(text), NUMBERS, NUMBERS)).replace("CAST(r.i AS int) = 1", "r.i = 1S") == typed


def test_round_of_decimals_goes_away_from_zero() -> None:
    values = ["0.49", "0.50", "-0.50", "1.50", "-2.50", "999.99", "-999.99", "0.00"]
    rows = pa.table({"c": pa.array([Decimal(v) for v in values], pa.decimal128(5, 2)), "id": range(len(values))})
    wanted = [int(Decimal(v).quantize(Decimal(1), ROUND_HALF_UP)) for v in values]
    right = pa.table({"want": pa.array(wanted, pa.int32()), "id": range(len(values))})
    tree = as_tree("round(r.c) = s.want AND r.id = s.id")
    (truth,) = evaluate_all([tree], rows.schema, right.schema, rows, right)
    assert np.diagonal(truth).all()


def test_text_is_no_number() -> None:
    schema = pa.schema([("t", pa.string())])
    with pytest.raises(PredicateError, match=r'sin\(r.t\): needs a number, not column "t" of r \(string\)'):
        resolve(parse("sin(r.t) < 1"), schema, schema)


def test_devices_refuse_what_is_not_exact() -> None:
    for text in ("round(r.d) = rint(s.d) AND sign(r.d) < radians(s.f)", "sin(r.d) <= s.d"):
        program = Program(analyse(resolve(as_tree(text), NUMBERS, NUMBERS)))
        if "sin" not in text:
            assert "copysign" in Source(program).text
            continue
        with pytest.raises(PredicateError, match=r"cannot compute sin\(r\.d\) on a device.*last bit.*grid"):
            Source(program)


def test_what_the_c_library_computes_is_asked_last() -> None:
    program = Program(analyse(resolve(as_tree("sin(r.d) * cos(s.d) <= 0.5D AND r.f < s.f"), NUMBERS, NUMBERS)))
    code = program.match_text("r")
    assert code.index("return False") < code.index("np.sin")


def test_the_docs_list_every_function() -> None:
    text = (Path(__file__).parents[2] / "docs" / "semantics.md").read_text(encoding="utf-8")
    section = text.partition("### Functions")[2].partition("### ")[0]
    assert [name for name in FUNCTIONS if f"`{name}`" not in section] == []
    last_bit = section.partition("**Last bit**")[2]
    assert [row.op for row in ROWS if row.exact == (f"`{row.op}`" in last_bit) and row.names] == []


def test_points_near_each_other_on_a_sphere() -> None:
    """The haversine formula behind a band of latitudes, against Python's own mathematics."""
    rng = Random(4)
    n, radius, near = 300, 6371.0, 400.0

    def points(name: str) -> pa.Table:
        places = [(rng.uniform(-60, 60), rng.uniform(-180, 180)) for _ in range(n)]
        lat, lon = zip(*places, strict=True)
        return pa.table({name: range(n), "t": [0] * n, "lat": lat, "lon": lon})

    left, right = points("i"), points("j")
    on = (
        f"abs(r.lat - s.lat) <= degrees({near}D / {radius}D) AND "
        f"2 * {radius}D * asin(sqrt(power(sin(radians(s.lat - r.lat) / 2), 2) + "
        f"cos(radians(r.lat)) * cos(radians(s.lat)) * power(sin(radians(s.lon - r.lon) / 2), 2))) <= {near}D"
    )
    found = sj.join(left, right, on=on, within=1, time="t")
    assert "abs" in str(sj.explain(left, right, on=on, within=1, time="t"))
    wanted = set()
    for a, b in itertools.product(left.to_pylist(), right.to_pylist()):
        lat, lon = (math.radians(b[name] - a[name]) / 2 for name in ("lat", "lon"))
        cosines = math.cos(math.radians(a["lat"])) * math.cos(math.radians(b["lat"]))
        h = math.sin(lat) ** 2 + cosines * math.sin(lon) ** 2
        if 2 * radius * math.asin(math.sqrt(h)) <= near:
            wanted.add((a["i"], b["j"]))
    assert wanted
    assert set(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True)) == wanted
