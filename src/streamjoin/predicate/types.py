"""The types that a predicate can compute with: Arrow's, reduced to what Spark SQL distinguishes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DECIMAL = 18
"""The digits that always fit a scaled 64-bit integer. Wider decimal columns are refused."""


@dataclass(frozen=True)
class Type:
    """One type. Only the fields that belong to `kind` are set.

    >>> str(INT32), str(Type("decimal", precision=10, scale=2))
    ('int', 'decimal(10,2)')
    """

    kind: str  # "bool" "int" "float" "timestamp" "date" "interval" "decimal" "string" "binary" "null"
    bits: int = 0  # int: 8, 16, 32, 64; float: 32, 64
    unit: str = ""  # timestamp, interval: "us" or "ns"
    aware: bool = False  # timestamp: does it name an instant (UTC) or a wall clock?
    precision: int = 0  # decimal: digits in all
    scale: int = 0  # decimal: digits after the point

    def __str__(self) -> str:
        return sql_name(self)

    @property
    def stored(self) -> str:
        """NumPy's name of the type in which kernels read a value; for texts, one half of a digest."""
        if self.kind in ("int", "float"):
            return f"{self.kind}{self.bits}"
        return {"bool": "bool", "date": "int32"}.get(self.kind, "int64")


BOOL = Type("bool")
INT8 = Type("int", bits=8)
INT16 = Type("int", bits=16)
INT32 = Type("int", bits=32)
INT64 = Type("int", bits=64)
FLOAT32 = Type("float", bits=32)
FLOAT64 = Type("float", bits=64)
DATE = Type("date")
STRING = Type("string")
BINARY = Type("binary")
NULL = Type("null")

INTS = {8: INT8, 16: INT16, 32: INT32, 64: INT64}
FLOATS = {32: FLOAT32, 64: FLOAT64}


def decimal(precision: int, scale: int) -> Type:
    """The decimal type of this many digits, `scale` of them after the point."""
    return Type("decimal", precision=precision, scale=scale)


def timestamp(unit: str = "us", aware: bool = False) -> Type:
    """The timestamp type: a count of `unit` since 1970-01-01."""
    return Type("timestamp", unit=unit, aware=aware)


def interval(unit: str = "us") -> Type:
    """The day-time interval type: a count of `unit`."""
    return Type("interval", unit=unit)


def range_of(t: Type) -> tuple[int, int]:
    """The smallest and the largest integer as which a value of the type may be stored."""
    if t.kind == "decimal" and t.precision <= MAX_DECIMAL:
        return -(10**t.precision) + 1, 10**t.precision - 1
    if t.kind == "bool":
        return 0, 1
    bits = {"int": t.bits, "date": 32}.get(t.kind, 64)
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def is_number(t: Type) -> bool:
    """Can the type be an operand of arithmetic between numbers?"""
    return t.kind in ("int", "float", "decimal")


def from_arrow(t: pa.DataType) -> Type | None:
    """The predicate's view of an Arrow type; None if no predicate can use such a column.

    Unsigned integers become the next wider signed ones, uint64 becomes bigint (values above its edge are
    refused where the data enters), float16 becomes float, timestamps and durations count microseconds unless
    they hold nanoseconds, and a dictionary is seen as its values.

    >>> import pyarrow as pa
    >>> str(from_arrow(pa.uint16())), str(from_arrow(pa.decimal128(9, 2))), from_arrow(pa.list_(pa.int8()))
    ('int', 'decimal(9,2)', None)
    """
    import pyarrow.types as pt

    if pt.is_dictionary(t):
        return from_arrow(t.value_type)
    if pt.is_boolean(t):
        return BOOL
    if pt.is_signed_integer(t):
        return INTS[t.bit_width]
    if pt.is_unsigned_integer(t):
        return INTS[min(2 * t.bit_width, 64)]
    if pt.is_floating(t):
        return FLOAT64 if t.bit_width == 64 else FLOAT32
    if pt.is_timestamp(t):
        return timestamp("ns" if t.unit == "ns" else "us", t.tz is not None)
    if pt.is_duration(t):
        return interval("ns" if t.unit == "ns" else "us")
    if pt.is_date(t):
        return DATE
    if pt.is_decimal(t):
        return decimal(t.precision, t.scale)
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t):
        return STRING
    if pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t) or pt.is_fixed_size_binary(t):
        return BINARY
    if pt.is_null(t):
        return NULL
    return None


def to_arrow(t: Type) -> pa.DataType:
    """The Arrow type of values that a predicate has computed.

    >>> to_arrow(decimal(9, 2)), to_arrow(timestamp("ns", aware=True)), to_arrow(interval())
    (Decimal128Type(decimal128(9, 2)), TimestampType(timestamp[ns, tz=UTC]), DurationType(duration[us]))
    """
    import pyarrow as pa

    if t.kind == "int":
        return getattr(pa, f"int{t.bits}")()
    if t.kind == "float":
        return pa.float64() if t.bits == 64 else pa.float32()
    if t.kind == "decimal":
        return pa.decimal128(t.precision, t.scale)
    if t.kind == "timestamp":
        return pa.timestamp(t.unit, "UTC" if t.aware else None)
    if t.kind == "interval":
        return pa.duration(t.unit)
    plain = {"bool": pa.bool_, "date": pa.date32, "string": pa.string, "binary": pa.binary, "null": pa.null}
    return plain[t.kind]()


_INT_NAMES = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_OTHER_NAMES = {"bool": "boolean", "interval": "interval day to second", "null": "void"}


def sql_name(t: Type) -> str:
    """Spark's name of the type.

    >>> sql_name(INT64), sql_name(FLOAT32), sql_name(timestamp(aware=True)), sql_name(timestamp())
    ('bigint', 'float', 'timestamp', 'timestamp_ntz')
    """
    if t.kind == "int":
        return _INT_NAMES[t.bits]
    if t.kind == "float":
        return "double" if t.bits == 64 else "float"
    if t.kind == "decimal":
        return f"decimal({t.precision},{t.scale})"
    if t.kind == "timestamp":
        return "timestamp" if t.aware else "timestamp_ntz"
    return _OTHER_NAMES.get(t.kind, t.kind)


_BY_NAME = {
    "boolean": BOOL,
    "bool": BOOL,
    "tinyint": INT8,
    "byte": INT8,
    "smallint": INT16,
    "short": INT16,
    "int": INT32,
    "integer": INT32,
    "bigint": INT64,
    "long": INT64,
    "float": FLOAT32,
    "real": FLOAT32,
    "double": FLOAT64,
    "date": DATE,
    "timestamp": timestamp(aware=True),
    "timestamp_ltz": timestamp(aware=True),
    "timestamp_ntz": timestamp(),
    "string": STRING,
    "binary": BINARY,
}
_DECIMAL_NAME = re.compile(r"(?:decimal|dec|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\Z")
CASTABLE = "boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), date, timestamp, timestamp_ntz"
"""What an error about a cast's target lists."""


def parse_name(text: str) -> Type | None:
    """The type that Spark calls by this name; None if there is none that a predicate can use.

    >>> parse_name("BIGINT") == INT64, str(parse_name("decimal(10, 2)")), parse_name("map<int,int>")
    (True, 'decimal(10,2)', None)
    """
    name = text.strip().lower()
    if len(name) > 100:  # more digits than Python reads as a number, perhaps
        return None
    if name in _BY_NAME:
        return _BY_NAME[name]
    match = _DECIMAL_NAME.match(name)
    if match is None:
        return None
    precision, scale = int(match[1] or 10), int(match[2] or 0)
    return decimal(precision, scale) if 0 < precision <= 38 and scale <= precision else None
