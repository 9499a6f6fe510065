"""Reads a predicate written as SQL text: a whitelist of sqlglot's nodes, all else is refused by name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from streamjoin.errors import PredicateError, cut
from streamjoin.predicate.calls import call
from streamjoin.predicate.literals import check_interval, parse_interval, parse_timestamp
from streamjoin.predicate.operations import FUNCTIONS, ROWS, Rule
from streamjoin.predicate.tree import Node, between, column, junction, literal, negate
from streamjoin.predicate.types import CASTABLE, Type, parse_name, sql_name, timestamp

if TYPE_CHECKING:
    from sqlglot import exp

MAX_LENGTH = 10_000
MAX_DEPTH = 100
MAX_DIGITS = 1_000
"""Of a number: the longest that is a double without an exponent has 309 before the point."""


def _signs(rule: Rule) -> str:
    return " ".join(row.sign for row in ROWS if row.rule == rule)


ALLOWED = (
    f"columns (r.x, s.y), constants, {_signs('arithmetic')}, {_signs('comparison')}, AND OR NOT, BETWEEN, "
    f"IN (constants), IS [NOT] NULL, IS [NOT] DISTINCT FROM, CASE, CAST, INTERVAL, {' '.join(FUNCTIONS)}"
)

_STATEMENTS = frozenset({"SELECT", "WITH", "INSERT", "DELETE", "UPDATE", "DROP", "CREATE", "ALTER", "MERGE"})


def parse(text: str) -> Node:
    """The tree of a predicate in Spark's SQL.

    >>> from streamjoin.predicate.tree import to_sql
    >>> to_sql(parse("r.x BETWEEN s.a - 10 AND s.a + 10"))
    'r.x >= s.a - 10 AND r.x <= s.a + 10'
    """
    if len(text) > MAX_LENGTH:
        raise PredicateError(
            f"the predicate has {len(text)} characters; at most {MAX_LENGTH} are allowed; "
            "put long lists into a table and join that"
        )
    try:
        return _Reader().read(_syntax_tree(text), 0)
    except RecursionError:
        raise _too_deep(text) from None


def _syntax_tree(text: str) -> Any:
    """sqlglot's tree, after the checks that must come before its recursive parser."""
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, SqlglotError

    spark = Dialect.get_or_raise("spark")
    try:
        tokens = spark.tokenize(text)
    except SqlglotError as error:
        why = _first_line(error)
        raise PredicateError(f"the predicate cannot be read: {why}; is a quote missing?") from None
    if not tokens:
        raise PredicateError("the predicate is empty; write a condition such as r.x <= s.y")
    _check_tokens(text, tokens)
    try:
        trees = _parser()(dialect=spark).parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise PredicateError(_syntax_error(text, error)) from None
    except SqlglotError as error:
        raise PredicateError(f"the predicate cannot be read: {_first_line(error)}") from None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise PredicateError(f"not one condition: {_short(text)}; combine conditions with AND or OR")
    return tree


@cache
def _parser() -> Any:
    """sqlglot's parser for Spark, but every function keeps its name and the order of its arguments.

    `operations` defines what a function means; sqlglot would turn log(2, x), ifnull or if into nodes of its own.
    """
    from sqlglot.dialects.dialect import Dialect

    spark = Dialect.get_or_raise("spark").parser_class

    def others(parsers: dict[str, Any]) -> dict[str, Any]:
        return {name: parser for name, parser in parsers.items() if name.lower() not in FUNCTIONS}

    return type(
        "Parser",
        (spark,),
        {
            "FUNCTIONS": {},
            "FUNCTION_PARSERS": others(spark.FUNCTION_PARSERS),
            "NO_PAREN_FUNCTION_PARSERS": others(spark.NO_PAREN_FUNCTION_PARSERS),
        },
    )


def _check_tokens(text: str, tokens: list[Any]) -> None:
    depth, before = 0, ""
    for token in tokens:
        kind = token.token_type.name
        if before == "INTERVAL":
            check_interval(token.text)  # over long ones the parser takes time by the square of their length
        before = kind
        depth += (kind in ("L_PAREN", "CASE", "L_BRACKET", "L_BRACE")) - (
            kind in ("R_PAREN", "END", "R_BRACKET", "R_BRACE")
        )
        if depth > MAX_DEPTH:
            raise _too_deep(text)
        if token.comments:
            raise PredicateError(
                f"comments are not allowed in a predicate: --{cut(token.comments[0].strip(), 40)}; "
                "for a double minus write - (-5)"
            )
        if kind in ("SEMICOLON", "HINT"):
            raise PredicateError(
                f"only one condition is allowed, without ';' or hints, at: {_short(text[token.start :])}"
            )


def _too_deep(text: str) -> PredicateError:
    return PredicateError(
        f"the predicate is nested more than {MAX_DEPTH} levels deep: {_short(text)}; flatten it, "
        "or compute a column before joining"
    )


def _syntax_error(text: str, error: Any) -> str:
    details = error.errors[0] if error.errors else {}
    before, after = details.get("start_context", "")[-30:], details.get("end_context", "")[:30]
    near = f"{before}>>{cut(details.get('highlight', ''), 30)}<<{after}"
    first = re.match(r"\s*(\w+)", text)
    if first is not None and first[1].upper() in _STATEMENTS:
        return f"not a predicate: {_short(text)} is a statement; write only the condition, as in r.x <= s.y"
    why = str(details.get("description", _first_line(error)))
    why = re.sub(r"<class '[^']*\.(\w+)'>", r"\1", why)
    if "Unexpected token" in why:
        why = "unexpected word or sign"
    return f"the predicate cannot be read near {cut(near, 120)}: {cut(why)}; allowed: {ALLOWED}"


def _first_line(error: Exception) -> str:
    return cut(str(error).splitlines()[0])


def _short(text: str) -> str:
    return cut(text, 60)


def _fragment(node: Any) -> str:
    try:
        return _short(node.sql(dialect="spark"))
    except Exception:
        return type(node).__name__


@cache
def _readers() -> dict[type, Callable[[_Reader, Any, int], Node]]:
    """Which sqlglot nodes are accepted, and how each is read. Built once, when sqlglot is first needed."""
    from sqlglot import exp

    def binary(op: str) -> Callable[[_Reader, Any, int], Node]:
        return lambda reader, e, depth: Node(op, reader.both(e, depth))

    def comparison(op: str) -> Callable[[_Reader, Any, int], Node]:
        return lambda reader, e, depth: reader.comparison(op, e, depth)

    infix = {"comparison": comparison, "arithmetic": binary}
    signs = {getattr(exp, row.syntax): infix[row.rule](row.op) for row in ROWS if row.syntax}
    return signs | {
        exp.Paren: lambda reader, e, depth: reader.read(e.this, depth),
        exp.Column: lambda reader, e, depth: reader.column(e),
        exp.Literal: lambda reader, e, depth: reader.literal(e),
        exp.Boolean: lambda reader, e, depth: literal(bool(e.this)),
        exp.Null: lambda reader, e, depth: literal(None),
        exp.HexString: lambda reader, e, depth: reader.hex(e),
        exp.Neg: lambda reader, e, depth: negate(reader.read(e.this, depth)),
        exp.NullSafeNEQ: lambda reader, e, depth: Node("not", (reader.comparison("eq_null_safe", e, depth),)),
        exp.And: lambda reader, e, depth: reader.junction("and", e, depth),
        exp.Or: lambda reader, e, depth: reader.junction("or", e, depth),
        exp.Not: lambda reader, e, depth: Node("not", (reader.read(e.this, depth),)),
        exp.Is: lambda reader, e, depth: reader.is_(e, depth),
        exp.Between: lambda reader, e, depth: reader.between(e, depth),
        exp.In: lambda reader, e, depth: reader.is_in(e, depth),
        exp.Case: lambda reader, e, depth: reader.case(e, depth),
        exp.Cast: lambda reader, e, depth: reader.cast(e, depth),
        exp.TryCast: lambda reader, e, depth: reader.cast(e, depth),
        exp.Interval: lambda reader, e, depth: reader.interval(e),
        exp.Anonymous: lambda reader, e, depth: reader.function(e, depth),
    }


class _Reader:
    """Turns accepted sqlglot nodes into ours; each call of read is one level deeper."""

    def read(self, e: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise _too_deep(_fragment(e) if depth < 2 * MAX_DEPTH else "")
        reader = _readers().get(type(e))
        if reader is None:
            raise _refused(e)
        return reader(self, e, depth + 1)

    def both(self, e: Any, depth: int) -> tuple[Node, Node]:
        return self.read(e.this, depth), self.read(e.expression, depth)

    def column(self, e: exp.Column) -> Node:
        from sqlglot import exp

        if not isinstance(e.this, exp.Identifier):
            raise _refused(e)
        if e.args.get("db") is not None:
            raise PredicateError(
                f"{_fragment(e)}: a column is written r.name or s.name; fields of structs cannot be used, "
                "and a name with a dot in it needs backquotes: r.`a.b`"
            )
        side = e.table
        if side and side.lower() not in ("r", "s"):
            raise PredicateError(f"{_fragment(e)}: unknown side '{cut(side)}'; the sides are r (left) and s (right)")
        return column(side.lower(), e.this.this)

    def literal(self, e: exp.Literal) -> Node:
        text = str(e.this)
        if e.is_string:
            return literal(text)
        if len(text) > MAX_DIGITS:
            raise PredicateError(f"{cut(text)}: no type holds a number of {len(text):,} digits; shorten it")
        try:
            if text.isdigit():
                return literal(int(text))
            number = float(text) if "e" in text.lower() else Decimal(text)
        except (ValueError, ArithmeticError):
            raise PredicateError(f"'{cut(text)}' is not a number") from None
        if isinstance(number, float) and math.isinf(number):
            raise PredicateError(f"{cut(text)} is larger than any double; write CAST('Infinity' AS double)")
        return literal(number)

    def hex(self, e: exp.HexString) -> Node:
        digits = str(e.this)
        try:
            return literal(bytes.fromhex("0" * (len(digits) % 2) + digits))
        except ValueError:
            raise PredicateError(f"X'{_short(digits)}' is not hexadecimal") from None

    def comparison(self, op: str, e: exp.Binary, depth: int) -> Node:
        """Spark and sqlglot group `a = b < c` and `a = b IN (c)` differently: such text needs parentheses."""
        from sqlglot import exp

        loose = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
        for operand in (e.this, e.expression):
            if isinstance(operand, (*loose, exp.In, exp.Between, exp.Is, exp.Not)):
                raise PredicateError(
                    f"{_fragment(e)}: comparisons do not chain; write a < b AND b < c, or add parentheses"
                )
        return Node(op, self.both(e, depth))

    def junction(self, op: str, e: exp.Connector, depth: int) -> Node:
        """A long chain of ANDs is one node, not a deep tree."""
        parts: list[Node] = []
        stack: list[Any] = [e]
        while stack:
            top = stack.pop()
            if type(top) is type(e):
                stack += [top.expression, top.this]
            else:
                parts.append(self.read(top, depth))
        return junction(op, parts)

    def is_(self, e: exp.Is, depth: int) -> Node:
        from sqlglot import exp

        value = self.read(e.this, depth)
        if isinstance(e.expression, exp.Null):
            return Node("is_null", (value,))
        if isinstance(e.expression, exp.Boolean):
            return Node("eq_null_safe", (value, literal(bool(e.expression.this))))
        raise _refused(e)

    def between(self, e: exp.Between, depth: int) -> Node:
        if e.args.get("symmetric"):
            raise _refused(e)
        value = self.read(e.this, depth)
        low, high = self.read(e.args["low"], depth), self.read(e.args["high"], depth)
        return between(value, low, high)

    def is_in(self, e: exp.In, depth: int) -> Node:
        options = e.args.get("expressions")
        extra = [key for key, arg in e.args.items() if arg and key not in ("this", "expressions")]
        if extra or not options:
            raise PredicateError(f"{_fragment(e)}: IN takes a list of constants, like r.x IN (1, 2); no subqueries")
        value = self.read(e.this, depth)
        return Node("in", (value, *(self.read(option, depth) for option in options)))

    def function(self, e: exp.Anonymous, depth: int) -> Node:
        """A function of the table, or a type's name as a cast: bigint(r.x)."""
        name = e.name.lower()
        target = parse_name(name)
        if name not in FUNCTIONS and (target is None or sql_name(target) != name or len(e.expressions) != 1):
            raise _refused(e)
        args = tuple(self.read(arg, depth) for arg in e.expressions)
        if name not in FUNCTIONS and target is not None:
            return _cast(args[0], target)
        try:
            return call(name, args)
        except PredicateError as error:
            raise PredicateError(f"{_fragment(e)}: {error}") from None

    def case(self, e: exp.Case, depth: int) -> Node:
        subject = self.read(e.this, depth) if e.this is not None else None
        args: list[Node] = []
        for branch in e.args["ifs"]:
            condition = self.read(branch.this, depth)
            if subject is not None:
                condition = Node("eq", (subject, condition))
            args += [condition, self.read(branch.args["true"], depth)]
        default = e.args.get("default")
        return Node("case", (*args, self.read(default, depth) if default is not None else literal(None)))

    def cast(self, e: exp.Cast, depth: int) -> Node:
        if e.args.get("format") or e.args.get("default"):
            raise _refused(e)
        name = e.to.sql(dialect="spark")
        target = parse_name(name)
        if target is None:
            raise PredicateError(f"{_fragment(e)}: cannot cast to {cut(name)}; supported: {CASTABLE}")
        return _cast(self.read(e.this, depth), target)

    def interval(self, e: exp.Interval) -> Node:
        from sqlglot import exp

        amount, unit = e.this, e.args.get("unit")
        if isinstance(amount, exp.Neg):
            amount = exp.Literal.string("-" + str(amount.this.this))
        if not isinstance(amount, exp.Literal):
            raise PredicateError(
                f"{_fragment(e)}: an interval's length must be a constant; write column * INTERVAL 1 SECOND"
            )
        if isinstance(unit, exp.IntervalSpan):
            return literal(parse_interval(amount.name, unit.this.name, unit.expression.name))
        return literal(parse_interval(amount.name, unit.name if unit is not None else None))


def _cast(value: Node, target: Type) -> Node:
    if target == timestamp(aware=True) and value.op == "literal" and isinstance(value.value, str):
        # TIMESTAMP '...' without a zone means UTC and may meet naive columns too: resolve decides.
        return literal(parse_timestamp(value.value))
    return Node("cast", (value,), target)


def _refused(e: Any) -> PredicateError:
    from sqlglot import exp

    shown = _fragment(e)
    if isinstance(e, (exp.Query, exp.Exists, exp.All, exp.Any, exp.Subquery)):
        what = "subqueries are not allowed"
    elif isinstance(e, exp.Window):
        what = "window functions are not allowed"
    elif isinstance(e, (exp.Placeholder, exp.Parameter)):
        what = "parameters are not allowed; put the value into the text"
    elif isinstance(e, exp.Concat):
        what = "two texts side by side; a quote inside a text is written \\'"
    elif isinstance(e, exp.Anonymous) and e.name.upper() not in exp.FUNCTION_BY_NAME:
        what = f"unknown function {cut(e.name)}"
    elif isinstance(e, exp.Func):
        name = e.name if isinstance(e, exp.Anonymous) else e.sql_name()
        what = f"the function {cut(name.lower())} is not supported"
    elif isinstance(e, exp.Star) or (isinstance(e, exp.Column) and isinstance(e.this, exp.Star)):
        what = "* is not a column"
    else:
        what = f"{type(e).__name__} is not supported"
    return PredicateError(f"{shown}: {what}; allowed: {ALLOWED}")
