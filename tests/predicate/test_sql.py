"""SQL text: what is read, how it is lowered, and that everything else is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from streamjoin.errors import PredicateError
from streamjoin.predicate.operations import OPERATIONS
from streamjoin.predicate.sql import MAX_LENGTH, parse
from streamjoin.predicate.tree import Node, columns, literal, to_sql, walk
from streamjoin.predicate.types import parse_name

LOWERED = [
    ("r.x BETWEEN 1 AND 2", "r.x >= 1 AND r.x <= 2"),
    ("r.x NOT BETWEEN 1 AND 2", "NOT (r.x >= 1 AND r.x <= 2)"),
    ("r.x IS NOT NULL", "r.x IS NOT NULL"),
    ("r.x isnull", "r.x IS NULL"),
    ("isnull(r.x) OR isnotnull(s.x)", "r.x IS NULL OR s.x IS NOT NULL"),
    ("r.x IS DISTINCT FROM s.x", "NOT r.x <=> s.x"),
    ("r.x IS NOT DISTINCT FROM s.x", "r.x <=> s.x"),
    ("r.b IS NOT TRUE", "NOT r.b <=> TRUE"),
    ("r.x == 1 AND s.y != 2", "r.x = 1 AND s.y <> 2"),
    ("!r.b", "NOT r.b"),
    ("CASE r.x WHEN 1 THEN 2 END = 3", "CASE WHEN r.x = 1 THEN 2 ELSE NULL END = 3"),
    ("if(r.b, 1, 2) = 1", "CASE WHEN r.b THEN 1 ELSE 2 END = 1"),
    ("nullif(r.x, 0) = 1", "CASE WHEN r.x = 0 THEN NULL ELSE r.x END = 1"),
    ("nvl(r.x, 0) = ifnull(s.x, 1)", "coalesce(r.x, 0) = coalesce(s.x, 1)"),
    ("mod(r.x, 2) = r.y % 3", "r.x % 2 = r.y % 3"),
    ("log(r.x) = log(2, r.y)", "ln(r.x) = log(2, r.y)"),
    ("pow(r.x, 2) = POWER(r.y, 2)", "power(r.x, 2) = power(r.y, 2)"),
    ("nvl2(r.x, 1, 2) = 1", "CASE WHEN r.x IS NOT NULL THEN 1 ELSE 2 END = 1"),
    ("if(r.b, 1) = 1", "CASE WHEN r.b THEN 1 ELSE NULL END = 1"),
    ("ceiling(r.x) = 1", "ceil(r.x) = 1"),
    ("r.x::bigint = bigint(s.x)", "CAST(r.x AS bigint) = CAST(s.x AS bigint)"),
    ("(r.a OR r.b) OR s.c", "r.a OR r.b OR s.c"),
    ("r.a AND (r.b OR s.c)", "r.a AND (r.b OR s.c)"),
    ("r.x - (s.a - 1) < -(r.y + 1)", "r.x - (s.a - 1) < -(r.y + 1)"),
    ("R.x = S.`odd name`", "r.x = s.`odd name`"),
    ("r.x NOT IN (1, 2)", "NOT r.x IN (1, 2)"),
    ("x < y", "x < y"),
]


@pytest.mark.parametrize(("text", "expected"), LOWERED)
def test_lowered(text: str, expected: str) -> None:
    assert to_sql(parse(text)) == expected


@pytest.mark.parametrize("text", [text for text, _ in LOWERED])
def test_printed_text_reads_back_as_the_same_tree(text: str) -> None:
    tree = parse(text)
    assert parse(to_sql(tree)) == tree
    assert {node.op for node in walk(tree)} <= OPERATIONS.keys() | {"column", "literal"}


CONSTANTS: list[tuple[str, Any, str | None]] = [
    ("1", 1, None),
    ("-5", -5, None),
    ("-9223372036854775808", -9223372036854775808, None),
    ("1.50", Decimal("1.50"), None),
    (".5", Decimal("0.5"), None),
    ("100.", Decimal("100"), None),
    ("1e3", 1000.0, None),
    ("TRUE", True, None),
    ("NULL", None, None),
    ("'it\\'s'", "it's", None),
    ("X'01FF'", b"\x01\xff", None),
    ("TIMESTAMP '2020-01-02 03:04:05.25'", dt.datetime(2020, 1, 2, 3, 4, 5, 250_000), None),
    ("TIMESTAMP '2020-01-02T03:04:05Z'", dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC), None),
    ("INTERVAL 5 SECONDS", dt.timedelta(seconds=5), None),
    ("INTERVAL '1.5' SECOND", dt.timedelta(seconds=1.5), None),
    ("INTERVAL '1 day 2 hours'", dt.timedelta(days=1, hours=2), None),
    ("INTERVAL '1 day -2 hours'", dt.timedelta(hours=22), None),
    ("INTERVAL -5 SECONDS", dt.timedelta(seconds=-5), None),
    ("INTERVAL 2 WEEKS", dt.timedelta(weeks=2), None),
    ("INTERVAL '10:30' MINUTE TO SECOND", dt.timedelta(minutes=10, seconds=30), None),
    ("INTERVAL '-1 02:03:04.5' DAY TO SECOND", -dt.timedelta(1, 4.5, 0, 0, 3, 2), None),
    ("INTERVAL 5 MILLISECONDS", dt.timedelta(milliseconds=5), None),
    ("1L", 1, "bigint"),
    ("10S", 10, "smallint"),
    ("5Y", 5, "tinyint"),
    ("1.5D", Decimal("1.5"), "double"),
    ("1.5F", Decimal("1.5"), "float"),
    ("2BD", "2", "decimal(1,0)"),
    ("1e3BD", "1e3", "decimal(4,0)"),
    ("DATE '2020-01-02'", "2020-01-02", "date"),
    ("TIMESTAMP_NTZ '2020-01-02'", "2020-01-02", "timestamp_ntz"),
    ("double('NaN')", "NaN", "double"),
]


@pytest.mark.parametrize(("text", "value", "cast_to"), CONSTANTS)
def test_constants(text: str, value: Any, cast_to: str | None) -> None:
    constant = parse(f"r.x = {text}").args[1]
    expected = literal(value)
    if cast_to is not None:
        expected = Node("cast", (expected,), parse_name(cast_to))
    assert constant == expected
    assert type(constant.value) is type(expected.value)


REFUSED = [
    ("r.x IN (SELECT 1)", "IN takes a list of constants"),
    ("r.x IN ()", "IN takes a list"),
    ("EXISTS (SELECT 1)", "subqueries are not allowed"),
    ("r.x < ALL (SELECT 1)", "subqueries are not allowed"),
    ("(SELECT 1) = r.x", "subqueries are not allowed"),
    ("SELECT 1", "is a statement"),
    ("drop table r", "is a statement"),
    ("__import__('os').system('x')", "not supported"),
    ("exec('x') = 1", "unknown function exec"),
    ("rand() < r.x", "the function rand is not supported"),
    ("factorial(r.x) < 1", "factorial"),
    ("current_timestamp() < r.ts", "not supported"),
    ("count(*) OVER () = 1", "window functions are not allowed"),
    ("r.x = ?", "parameters are not allowed"),
    ("r.x = :p", "parameters are not allowed"),
    ("r.x = @p", "parameters are not allowed"),
    ("r.* = 1", "not a column"),
    ("* = 1", "not"),
    ("r.x = 1; DROP TABLE s", "without ';'"),
    ("r.x = 1;", "without ';'"),
    ("r.x = 1 -- or not", "comments are not allowed"),
    ("r.x /* c */ = 1", "comments are not allowed"),
    ("r.x--5 = 1", "double minus"),
    ("r.x LIKE 'a%'", "Like is not supported"),
    ("r.x & 1 = 1", "BitwiseAnd is not supported"),
    ("r.x || 'a' = 'b'", "DPipe is not supported"),
    ("r['x'] = 1", "Bracket is not supported"),
    ("(r.x, r.y) = (1, 2)", "Tuple is not supported"),
    ("r.x BETWEEN SYMMETRIC 2 AND 1", "not supported"),
    ("floor(r.x, 2) = 1", "floor takes 1 argument, not 2"),
    ("pi(1) = r.x", "pi takes no argument, not 1"),
    ("log(1, 2, 3) = r.x", "log takes 1 argument or 2 arguments, not 3"),
    ("least(r.x) = 1", "least takes 2 or more arguments, not 1"),
    ("abs(DISTINCT r.x) = 1", "Distinct"),
    ("1 < r.x < 5", "do not chain"),
    ("r.b = r.x > 1", "add parentheses"),
    ("r.b = r.x IN (1, 2)", "add parentheses"),
    ("r.a.b = 1", "fields of structs"),
    ("t.x = 1", "unknown side 't'"),
    ("r.x = 'it''s'", "a quote inside a text"),
    ("CAST(r.x AS array<int>) = 1", "supported: boolean"),
    ("INTERVAL 1 MONTH < r.x", "no fixed length"),
    ("INTERVAL '1' YEAR < r.x", "no fixed length"),
    ("INTERVAL 1.5 HOURS < r.x", "only seconds may have a fraction"),
    ("INTERVAL 5 < r.x", "INTERVAL 5 SECONDS"),
    ("INTERVAL 5 NANOSECONDS < r.x", "unknown unit"),
    ("INTERVAL r.x SECONDS < r.y", "must be a constant"),
    ("INTERVAL 'soon' < r.x", "cannot be read"),
    ("TIMESTAMP 'yesterday' < r.x", "is not a timestamp"),
    ("TIMESTAMP '2020-13-01' < r.x", "is not a timestamp"),
    ("TIMESTAMP '2020-01-01 00:00:00.1234567' < r.x", "finer than a microsecond"),
    ("TIMESTAMP '2020-01-01 00:00:00 Mars/Base' < r.x", "not a known time zone"),
    ("r.x = 1e", "not a number"),
    ("", "empty"),
    ("  ", "empty"),
    ("r.x AND", "cannot be read near"),
    ("(r.x = 1", "Expecting )"),
    ("r.x = 1)", "unexpected word or sign"),
    ("r.x = 'a", "quote missing"),
    ("r.x XOR r.y", ">>XOR<<"),
    ("{{x}}", "parameters are not allowed"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(PredicateError, match=r".") as caught:
        parse(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5_000 + "r.x = 1" + ")" * 4_000,
        "(" * 150 + "r.x = 1" + ")" * 150,
        "r.x = " + "-" + " - " * 2_000 + "1",
        "NOT " * 2_000 + "r.b",
        "abs(" * 500 + "r.x" + ")" * 500 + " = 1",
        "CASE WHEN r.b THEN " * 300 + "1" + " END" * 300 + " = 1",
        "r.x" + " + 1" * 2_000 + " = 1",
        "r.x = 1 " + "::int" * 1_900,
    ],
)
def test_absurd_nesting_is_an_error_not_a_crash(text: str) -> None:
    with pytest.raises(PredicateError, match="nested more than 100"):
        parse(text)


def test_length_is_capped() -> None:
    with pytest.raises(PredicateError, match="at most 10000"):
        parse("r.x = 1" + " " * MAX_LENGTH)


def test_a_long_chain_is_one_flat_node() -> None:
    tree = parse(" AND ".join(f"r.x <> {k}" for k in range(600)))
    assert tree.op == "and"
    assert len(tree.args) == 600


def test_columns_and_sides() -> None:
    tree = parse("r.x + s.a < r.y AND r.x > 1")
    assert columns(tree) == {("r", "x"), ("s", "a"), ("r", "y")}
    assert tree.reads == {"r", "s"}
    assert parse("r.x > 1").reads == {"r"}
