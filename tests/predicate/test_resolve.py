"""Types and implicit casts: the same as Spark's own analysis (ANSI off); refusals name the remedy."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamjoin.errors import PredicateError, SchemaError
from streamjoin.predicate import as_tree
from streamjoin.predicate.expressions import lit, r, s
from streamjoin.predicate.operations import OPERATIONS
from streamjoin.predicate.resolve import resolve
from streamjoin.predicate.tree import Node, physical, to_sql, walk
from streamjoin.predicate.types import BOOL, INT16, INT32, INT64, from_arrow, interval, sql_name, timestamp

ARROW = pa.schema(
    [
        ("b", pa.int8()),
        ("h", pa.int16()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("c", pa.decimal128(10, 2)),
        ("e", pa.decimal128(14, 6)),
        ("o", pa.bool_()),
        ("t", pa.string()),
        ("y", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tn", pa.timestamp("us")),
        ("v", pa.duration("us")),
    ]
)
SPARK = (
    "b tinyint, h smallint, i int, l bigint, f float, d double, c decimal(10,2), e decimal(14,6), o boolean, "
    "t string, y date, ts timestamp, tn timestamp_ntz, v interval day to second"
)
S = pa.schema([("z", pa.int32())])


def typed(on: Any, left: pa.Schema = ARROW, right: pa.Schema = S) -> Node:
    tree = resolve(as_tree(on), left, right)
    assert tree.type == BOOL
    for node in walk(tree):
        assert node.type is not None, to_sql(node)
        assert node.op in OPERATIONS or node.op in ("column", "literal"), node.op
        if node.op in OPERATIONS and OPERATIONS[node.op].rule == "comparison":
            assert node.args[0].type == node.args[1].type, to_sql(node)
        if node.op in ("least", "greatest", "coalesce"):
            assert {arg.type for arg in node.args} == {node.type}
        if node.op in ("add", "sub") and node.type.kind in ("int", "float", "decimal"):
            assert {arg.type for arg in node.args} == {node.type}
    return tree


def text(on: Any) -> str:
    return to_sql(typed(on))


NUMBERS = ["b", "h", "i", "l", "f", "d", "c", "5", "5L", "1.5", "1.5D", "1.5F", "0.05", "-5", "3000000000"]
VALUES = [
    *(f"{x} {op} {y}" for op in "+-*" for x in ("b", "h", "i", "l", "f", "d", "c", "e") for y in NUMBERS),
    *(f"{x} % {y}" for x in ("b", "h", "i", "l", "f", "d") for y in ("b", "i", "l", "f", "d", "3", "2.5D")),
    *(f"{x} / {y}" for x in ("b", "i", "l", "f", "d") for y in ("b", "i", "l", "f", "d", "3", "2.5D")),
    *(f"{f}({x})" for f in ("floor", "ceil", "sqrt", "abs", "-") for x in ("b", "i", "l", "f", "d", "c", "e")),
    *(
        form.format(x, y)
        for form in ("least({}, {})", "coalesce({}, {})", "CASE WHEN o THEN {} ELSE {} END")
        for x in ("b", "i", "l", "f", "d", "c", "5")
        for y in ("i", "l", "f", "d", "e", "1.5", "5", "NULL")
    ),
    *(f"{f}({x})" for f in ("round", "rint", "sign", "exp", "radians") for x in ("b", "i", "l", "f", "d", "c", "e")),
    *("round(NULL)", "ln(NULL)", "power(i, f)", "atan2(l, 1.5)", "log(2, i)", "hypot(f, f)", "pi()", "isnan(f)"),
    *("pmod(b, i)", "pmod(f, 3)", "pmod(d, l)", "nvl2(i, b, l)", "nullif(f, d)", "negative(c)", "positive(f)"),
    *("f / 1.5", "d / 0.1", "f % 2.5", "i DIV l", "b DIV 2", "c % 1.5D", "e / d"),
    *("least(f, i, c)", "greatest(i, f, l)", "coalesce(b, 1.5, d)", "nullif(i, 1.5)", "nullif(f, 1.5)"),
    *(
        "1 / 3",
        "1.0 / 3",
        "7.5 % 2",
        "0.1 + 0.2",
        "1.5 * 1.5",
        "2 * 3",
        "7 DIV 2",
        "1e3",
        "2BD",
        "1e3BD",
        "5Y",
    ),
    *("y + 1", "y - 1", "1 + y", "y + b", "ts + v", "v + ts", "ts - v", "tn + v", "tn - INTERVAL 5 SECONDS"),
    *("ts - ts", "tn - tn", "ts - y", "y - ts", "v + v", "v * 2", "2 * v", "v * l", "-v", "abs(v)"),
    *("ts - TIMESTAMP '2020-01-01'", "least(ts, y)", "coalesce(tn, y)", "least(v, INTERVAL 5 SECONDS)"),
    *("CAST(i AS bigint)", "CAST(d AS int)", "CAST(o AS double)", "CAST(i AS boolean)", "CAST(c AS double)"),
    *("CAST(c AS int)", "CAST(i AS decimal(12,2))", "CAST(c AS decimal(12,3))", "CAST(ts AS bigint)"),
    *("CAST(l AS timestamp)", "CAST(ts AS date)", "CAST(y AS timestamp)", "CAST(tn AS timestamp)"),
    *("CAST('NaN' AS double)", "CAST('5' AS int)", "CAST(NULL AS int)", "CAST(ts AS timestamp_ntz)"),
    *("NULL + 1", "i + NULL", "-NULL", "floor(NULL)", "sqrt(NULL)", "NULL / 2", "i DIV NULL", "ts - NULL"),
]
COMPARED = [
    *(f"{x} <= {y}" for x in ("b", "h", "i", "l", "f", "d") for y in (*NUMBERS, "e") if "." not in y or x in "fd"),
    *("i <= c", "l = c", "c = e", "f = c", "d = e", "o = i", "o = d", "o = true", "f <= 1.5", "c <= 1.5D"),
    *("ts < y", "y < tn", "ts = ts", "v < INTERVAL 5 SECONDS", "ts - ts < v", "y = y", "t = 'a'", "i = NULL"),
    *("ts < '2020-01-01'", "y = '2020-01-01'", "i * 1.5 <= l", "i + 0.5 <= d", "floor(d) = i", "i / 2 < f"),
]


def spark_type(name: str) -> str:
    """Spark tells spans of days from spans of seconds; a predicate does not need to."""
    return "interval day to second" if name.startswith("interval") else name


@pytest.mark.spark
def test_types_are_sparks(spark: Any) -> None:
    frame = spark.createDataFrame([], SPARK)
    ours = [sql_name(typed(f"({e}) IS NULL").args[0].type) for e in VALUES]  # type: ignore[arg-type]
    analysed = frame.selectExpr(*(f"{e} AS v{k}" for k, e in enumerate(VALUES))).schema
    theirs = [spark_type(field.dataType.simpleString()) for field in analysed]
    assert [row for row in zip(VALUES, ours, theirs, strict=True) if row[1] != row[2]] == []


FOLDED = [
    *("1 / 3", "1.0 / 3", "2.5 / 0.3", "7.5 % 2", "-7.5 % 2", "0.1 + 0.2", "1.5 * 1.25", "-7 % 3", "7 % -3"),
    *("-7 DIV 2", "7 DIV 0", "1 / 0", "1.5 % 0", "5.0D % 0", "0.1D + 0.2D", "0.1F + 0.2F", "0.1F * 3"),
    *("-7.5D % 2", "7.5F % 2", "CAST('Infinity' AS double) % 2", "5.0D % CAST('-Infinity' AS double)"),
    *(
        "CAST(0.1 AS float)",
        "CAST(16777217 AS float)",
        "CAST(16777219 AS float)",
        "0.1F",
        "1e-40F",
        "1e308 * 10",
    ),
    *("CAST(9007199254740993 AS double)", "CAST(36028799166447617 AS float)", "CAST(1e300 AS float)"),
    *(
        "CAST(1e10 AS int)",
        "CAST(-1e300 AS bigint)",
        "CAST(CAST('NaN' AS double) AS int)",
        "CAST(-1.9D AS int)",
    ),
    *("CAST(-1.9 AS int)", "CAST(1.255 AS decimal(10,2))", "CAST(-1.255 AS decimal(10,2))"),
    *("CAST(1.005D AS decimal(10,2))", "CAST(0.5 AS boolean)", "CAST(CAST('NaN' AS double) AS boolean)"),
    *("CAST(TRUE AS decimal(3,1))", "CAST('5' AS bigint)", "CAST(12345678901234.567 AS double)"),
    *("CAST(TIMESTAMP '1969-12-31 23:59:59.5' AS bigint)", "CAST(TIMESTAMP '1969-12-31 23:59:59.5' AS date)"),
    *("DATE '2020-02-28' + 2", "DATE '2020' - 1", "INTERVAL '1 day -2 hours' * 3", "12345678901234.567D"),
    *("abs(-1.5)", "-(0.0D)", "abs(INTERVAL -5 SECONDS)", "INTERVAL '-1 02:03' DAY TO MINUTE"),
]


@pytest.mark.spark
def test_constants_are_sparks(spark: Any) -> None:
    row = spark.sql("SELECT " + ", ".join(f"{e} AS v{k}" for k, e in enumerate(FOLDED))).collect()[0]
    different = []
    for e, theirs in zip(FOLDED, row, strict=True):
        ours = typed(f"({e}) IS NULL").args[0]
        assert ours.op == "literal", e
        if repr(ours.value) != repr(theirs):
            different.append((e, ours.value, theirs))
    assert different == []


@pytest.mark.spark
def test_operands_meet_in_sparks_type(spark: Any) -> None:
    frame = spark.createDataFrame([], SPARK)
    plan = frame.selectExpr(*(f"{e} AS v{k}" for k, e in enumerate(COMPARED)))._jdf.queryExecution().analyzed()
    different = []
    for k, e in enumerate(COMPARED):
        theirs = plan.projectList().apply(k).child().left().dataType().simpleString()
        compared = typed(e)
        assert OPERATIONS[compared.op].rule == "comparison", e
        ours = sql_name(compared.args[0].type)  # type: ignore[arg-type]
        if ours != spark_type(theirs):
            different.append((e, ours, theirs))
    assert different == []


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        # Float columns meet integers as floats and decimal constants as doubles.
        ("r.f <= 10", "r.f <= 10.0F"),
        ("r.f + 10 < r.f", "r.f + 10.0F < r.f"),
        ("r.f <= 1.5", "CAST(r.f AS double) <= 1.5D"),
        (r.f <= 1.5, "CAST(r.f AS double) <= 1.5D"),
        ("r.f = 16777217", "r.f = 1.6777216e+07F"),
        ("r.f = CAST(0.1 AS float)", "r.f = 0.1F"),
        ("r.d = 0.1", "r.d = 0.1D"),
        # Integers against decimal constants stay integers.
        ("r.i < 1.5", "r.i <= 1"),
        ("r.i <= -1.5", "r.i <= -2"),
        ("r.i > 1.5", "r.i >= 2"),
        ("r.i >= -1.5", "r.i >= -1"),
        ("r.i <= 10.0", "r.i <= 10"),
        ("1.5 > r.i", "r.i <= 1"),
        ("r.i = 1.5", "r.i IS NULL AND NULL"),
        ("r.i <> 1.5", "r.i IS NOT NULL OR NULL"),
        ("r.i <=> 1.5", "FALSE"),
        ("r.b < 500.5", "CAST(r.b AS int) <= 500"),
        ("r.l < 9223372036854775807.5", "r.l <= 9223372036854775807"),
        ("r.c < 1.234", "r.c <= 1.23"),
        ("r.c >= 1.234", "r.c >= 1.24"),
        ("r.c = 5", "r.c = 5.00"),
        ("r.c < 99999999999999999999.5", "r.c IS NOT NULL OR NULL"),
        ("r.l > 99999999999999999999.5", "r.l IS NULL AND NULL"),
        # IN has one type for all, except that exact types stay exact.
        ("r.l IN (1.5F, 2)", "CAST(r.l AS float) = 1.5F OR CAST(r.l AS float) = 2.0F"),
        ("r.i IN (1, 2)", "r.i = 1 OR r.i = 2"),
        ("r.t IN ('a')", "r.t = 'a'"),
        # BETWEEN has two.
        ("r.f BETWEEN 1 AND 2.5", "r.f >= 1.0F AND CAST(r.f AS double) <= 2.5D"),
        # Constants are folded, exactly.
        ("r.d < 0.1 + 0.2", "r.d < 0.3D"),
        ("r.d < 0.1D + 0.2D", "r.d < 0.30000000000000004D"),
        ("r.i < 2 * 5 - 1", "r.i < 9"),
        ("r.i < -7 % 3", "r.i < -1"),
        ("r.l < -7 DIV 2", "r.l < -3"),
        ("r.d < 1 / 0", "r.d < NULL"),
        ("r.l < 2147483647 + 1", "r.l < CAST(2147483647 + 1 AS bigint)"),
        ("r.v < INTERVAL 1 DAY * 2 + INTERVAL 30 MINUTES", "r.v < INTERVAL '2910' MINUTE"),
        ("r.ts < TIMESTAMP '2020-01-02' - INTERVAL 1 DAY", "r.ts < TIMESTAMP '2020-01-01 00:00:00'"),
        ("r.l = -9223372036854775808", "r.l = -9223372036854775808"),
        # Time.
        ("r.y - r.y < r.v", "CAST(r.y AS timestamp_ntz) - CAST(r.y AS timestamp_ntz) < r.v"),
        ("r.y + INTERVAL 1 HOUR < r.ts", None),
        ("INTERVAL 1 HOUR + r.tn < r.tn", "r.tn + INTERVAL '1' HOUR < r.tn"),
        ("r.tn < TIMESTAMP '2020-01-01'", "r.tn < TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
        (r.ts < dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "r.ts < TIMESTAMP '2020-01-01 00:00:00+00:00'"),
        (r.tn < dt.datetime(2020, 1, 1), "r.tn < TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
        # The rest.
        ("r.o = 1", "CAST(r.o AS int) = 1"),
        ("r.I = 1", "r.i = 1"),
        ("z = i", "s.z = r.i"),
        ("floor(r.i) = ceil(r.d)", "CAST(r.i AS bigint) = ceil(r.d)"),
        ("NULL", "NULL"),
        ("NULL = NULL", "NULL"),
        ("NULL <=> NULL", "TRUE"),
        (True, "TRUE"),
    ],
)
def test_resolved_text(on: Any, expected: str | None) -> None:
    resolved = text(on)
    if expected is not None:
        assert resolved == expected


def test_printed_trees_resolve_to_themselves() -> None:
    for on in ("r.f + 10 < r.d", "r.f = 16777217", "r.c * 2 < r.e", "r.ts - INTERVAL '1.5' SECOND < r.ts"):
        assert typed(text(on)) == typed(on)


@pytest.mark.parametrize(
    ("on", "error", "why"),
    [
        ("r.pirce = 1", SchemaError, 'r has no column "pirce"'),
        ("s.zz = 1", SchemaError, 's has no column "zz".*did you mean "z"'),
        ("nope = 1", SchemaError, 'neither r nor s has a column "nope"'),
        ("r.i", PredicateError, 'not a predicate: column "i" of r .int.'),
        ("1 + 1", PredicateError, "not a predicate"),
        ("r.i AND r.o", PredicateError, 'AND needs conditions, and column "i" of r'),
        ("NOT r.t", PredicateError, "NOT needs conditions"),
        ("CASE WHEN r.i THEN 1 END = 1", PredicateError, "CASE WHEN needs conditions"),
        ("r.t < 'a'", PredicateError, "text can only be compared with ="),
        ("r.t = 5", PredicateError, 'column "t" of r .string. and 5 .int. cannot be mixed; cast r.t'),
        ("r.i = '5'", PredicateError, "without quotes"),
        ("r.t + 1 = 2", PredicateError, "arithmetic needs numbers"),
        ("r.o + 1 = 2", PredicateError, "CAST"),
        ("coalesce(r.t, 'a') = 'b'", PredicateError, "cannot choose between texts"),
        ("least(r.t, 'a') = 'b'", PredicateError, "cannot choose between texts"),
        ("least(r.i, r.t) = 1", PredicateError, "cannot be mixed"),
        ("r.ts < r.tn", PredicateError, r'column "tn" of r .* has no time zone.*CAST\(r.tn AS timestamp\)'),
        ("r.ts - r.tn < r.v", PredicateError, "has no time zone"),
        ("r.tn < TIMESTAMP '2020-01-01 00:00:00Z'", PredicateError, "has no time zone"),
        (r.ts < dt.datetime(2020, 1, 1), PredicateError, "has no time zone"),
        ("r.ts + 1 < r.ts", PredicateError, "add an interval"),
        ("r.ts < 5", PredicateError, "compare times with times"),
        ("r.v < 5", PredicateError, "INTERVAL 5 SECONDS"),
        ("r.v * 1.5 < r.v", PredicateError, "by an integer only"),
        ("r.v / 2 < r.v", PredicateError, "intervals can be"),
        ("r.ts * 2 < r.ts", PredicateError, "not defined"),
        ("r.y + 1L < r.y", PredicateError, "CAST"),
        ("r.c / 2 < 1", PredicateError, r"decimal / rounds.*CAST\(r.c AS double\)"),
        ("r.i / 1.5 < 1", PredicateError, "1.5D"),
        ("r.c % 2 = 1", PredicateError, "decimal % rounds"),
        ("r.d DIV 2 = 1", PredicateError, "DIV needs integers.*floor"),
        ("r.l + 0.5 < r.d", PredicateError, "0.5D"),
        ("r.e * r.e * r.e * r.e < 1", PredicateError, "Spark keeps 38"),
        ("r.o < 1", PredicateError, "compare it with TRUE or FALSE"),
        ("r.o IN (1)", PredicateError, "no common type"),
        ("CAST(r.t AS int) = 1", PredicateError, "cast it before joining"),
        ("CAST(r.i AS string) = 'a'", PredicateError, "supported targets are"),
        ("CAST(r.tn AS bigint) = 1", PredicateError, "no time zone"),
        ("CAST(r.ts AS int) = 1", PredicateError, "need a bigint"),
        ("CAST(r.y AS int) = 1", PredicateError, "supported targets"),
        ("CAST(r.d AS decimal(10,2)) = 1", PredicateError, "rounded"),
        ("CAST(r.c AS decimal(10,1)) = 1", PredicateError, "digits could be lost"),
        ("CAST(r.i AS decimal(5,0)) = 1", PredicateError, r"decimal\(10,0\) is wide enough"),
        ("CAST(300 AS tinyint) = r.b", PredicateError, "300 is not a valid tinyint"),
        ("CAST('x' AS int) = r.b", PredicateError, "'x' is not a valid int"),
        ("DATE '2020-02-30' = r.y", PredicateError, "is not a date"),
        ("r.ts < 'soon'", PredicateError, "is not a timestamp"),
        ("r.l < 9223372036854775808", PredicateError, "does not fit 64 bits"),
        ("r.c < 1234567890.12345678901234567890123456789", PredicateError, "39 digits"),
        ("r.i + 12345678901234567890.5 < r.i", PredicateError, "does not fit 64 bits"),
        ("-r.t = 1", PredicateError, "needs a number"),
        ("abs(r.o) = 1", PredicateError, "needs a number"),
        ("floor(r.ts) = 1", PredicateError, "needs a number"),
        ("sqrt(r.t) = 1", PredicateError, "needs a number"),
        (lit(Decimal("NaN")) == r.c, PredicateError, "use a float"),
    ],
)
def test_refused_with_the_remedy(on: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        typed(on)


def test_schemas_decide() -> None:
    both = pa.schema([("x", pa.int32()), ("k", pa.int64()), ("k", pa.int64())])
    with pytest.raises(SchemaError, match=r'"x" in the predicate is ambiguous.*say which side'):
        typed("x = 1", both, both)
    with pytest.raises(SchemaError, match=r'r has several columns named "k"'):
        typed("r.k = 1", both, both)
    with pytest.raises(SchemaError, match="ambiguous"):
        typed("r.aB = 1", pa.schema([("ab", pa.int32()), ("AB", pa.int32())]))
    with pytest.raises(SchemaError, match=r"list<item: int32>, which a predicate cannot use"):
        typed("r.x = 1", pa.schema([("x", pa.list_(pa.int32()))]))
    with pytest.raises(SchemaError, match=r"at most 18 digits.*decimal\(18,4\)"):
        typed("r.x = 1", pa.schema([("x", pa.decimal128(20, 4))]))
    with pytest.raises(PredicateError, match=r'column "x" of r .decimal.18,2.. to double: 18 digits'):
        typed("r.x = r.d", pa.schema([("x", pa.decimal128(18, 2)), ("d", pa.float64())]))
    assert to_sql(typed("r.x = 1", pa.schema([("x", pa.null())]))) == "NULL = 1"


def test_one_unit_of_time_for_the_whole_predicate() -> None:
    left = pa.schema([("a", pa.timestamp("ns")), ("b", pa.timestamp("s")), ("y", pa.date32())])
    tree = typed("r.a - r.b <= INTERVAL 5 SECONDS AND r.y < r.b AND r.b < TIMESTAMP '2020-01-01'", left)
    assert {n.type for n in walk(tree) if n.type is not None and n.type.unit} == {
        timestamp("ns"),
        interval("ns"),
    }
    stored = [physical(n) for n in walk(tree) if n.op == "literal"]
    assert stored == [5_000_000_000, 1_577_836_800_000_000_000]
    assert physical(typed("r.b < TIMESTAMP '2020-01-01'", left).args[1]) == 1_577_836_800_000_000
    with pytest.raises(PredicateError, match="does not fit 64 bits"):
        typed("r.a < TIMESTAMP '9999-01-01'", left)


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "bigint"),
        (pa.float16(), "float"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary(4), "binary"),
        (pa.date64(), "date"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.timestamp("ns", "Europe/Berlin"), "timestamp"),
        (pa.duration("ms"), "interval day to second"),
        (pa.null(), "void"),
    ],
)
def test_arrow_types(arrow: pa.DataType, name: str) -> None:
    t = from_arrow(arrow)
    assert t is not None
    assert sql_name(t) == name


@pytest.mark.parametrize("arrow", [pa.list_(pa.int8()), pa.struct([]), pa.time64("us"), pa.map_(pa.int8(), pa.int8())])
def test_arrow_types_without_meaning(arrow: pa.DataType) -> None:
    assert from_arrow(arrow) is None


def test_literals_widen_with_their_column() -> None:
    assert typed("r.i = 5").args[1].type == INT32
    assert typed("r.l = 5").args[1].type == INT64
    assert typed("r.h = 5S").args[1].type == INT16
    assert typed("r.i = 3000000000").args[0].type == INT64
    assert typed(s.z == 1).args[1].type == INT32


def test_an_endless_expression_is_an_error_not_a_crash() -> None:
    deep = r.i
    for _ in range(20_000):
        deep = deep + 1
    with pytest.raises(PredicateError, match="operations"):
        typed(deep > 0)
