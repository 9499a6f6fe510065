"""What a join hands out: the pairs, rows without a partner, the best partners, aggregates, chosen columns.

Declared here once, for every engine: which kinds there are, what they are called, and which of them go together. No
compiler and no Arrow is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamjoin.errors import OptionError, PredicateError, UnsupportedError, cut, either, shown

if TYPE_CHECKING:
    from streamjoin.predicate.tree import Node


@dataclass(frozen=True)
class How:
    """A join type. Sides are counted: 0 is r, 1 is s."""

    name: str
    meaning: str
    aliases: tuple[str, ...] = ()  # Spark's spellings, without underscores
    keeps: tuple[bool, bool] = (False, False)  # sides whose tuples without a partner come out, too
    pairs: bool = True  # pairs come out; otherwise rows of r alone
    reduces: bool = False  # the partners of an r can be chosen among (take=) and counted (aggregate=)

    def nullable(self, side: int) -> bool:
        """May the columns of a side be null because there was no partner?"""
        return self.pairs and self.keeps[1 - side]


INNER = How("inner", "the pairs", reduces=True)
HOWS = {
    how.name: how
    for how in (
        INNER,
        How("left", "and every r without a partner", ("leftouter",), (True, False), reduces=True),
        How("right", "and every s without a partner", ("rightouter",), (False, True)),
        How("full", "and every r and every s without a partner", ("outer", "fullouter"), (True, True)),
        How("semi", "every r with a partner, once", ("leftsemi",), pairs=False),
        How("anti", "every r without a partner", ("leftanti",), (True, False), pairs=False),
    )
}
_SPELLED = {word: how for how in HOWS.values() for word in (how.name, *how.aliases)}


def how_of(name: Any) -> How:
    """The join type of this name, or of Spark's name for it.

    >>> how_of("left_outer").name, how_of("outer").name, how_of("anti").meaning
    ('left', 'full', 'every r without a partner')
    """
    known = _SPELLED.get(name.lower().replace("_", "")) if isinstance(name, str) else None
    if known is None:
        raise OptionError(f"how={shown(name)} is not one of {', '.join(HOWS)}; Spark's names, as left_outer, go too")
    return known


@dataclass(frozen=True)
class Take:
    """Which of an r's partners are taken: by the order of time, or the `k` with the smallest or greatest `by`."""

    name: str
    by: Node | None = None
    k: int = 1

    @property
    def every(self) -> bool:
        return self.name == ALL

    @property
    def greatest(self) -> bool:
        return self.name == "max_by"

    @property
    def timely(self) -> bool:
        """Does the order of time decide?"""
        return self.by is None and not self.every

    @property
    def hastened(self) -> bool:
        """Is an r decided the earlier, the closer a partner that was found?"""
        return self.name in (FORWARD, NEAREST)

    def __str__(self) -> str:
        from streamjoin.predicate.tree import to_sql

        if self.by is None:
            return self.name
        return f"{self.name}({to_sql(self.by)}{f', k={self.k}' if self.k > 1 else ''})"


TAKES = ALL, BACKWARD, FORWARD, NEAREST = "all", "backward", "forward", "nearest"
CHOSEN = MIN_BY, MAX_BY = "min_by", "max_by"
MOST_PARTNERS = 1_000_000


def min_by(by: Any, k: int = 1) -> Take:
    """For `take=`: of an r's partners the k with the smallest value of an expression; null comes last.

    >>> min_by("abs(r.price - s.bid)", k=3)
    Take(name='min_by', by=<Node abs(r.price - s.bid)>, k=3)
    """
    return _by(MIN_BY, by, k)


def max_by(by: Any, k: int = 1) -> Take:
    """For `take=`: of an r's partners the k with the greatest value of an expression; null comes last.

    >>> import streamjoin as sj
    >>> max_by(sj.s.bid)
    Take(name='max_by', by=<Node s.bid>, k=1)
    """
    return _by(MAX_BY, by, k)


def _by(name: str, by: Any, k: Any) -> Take:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_PARTNERS:
        raise OptionError(f"{name}(..., k={shown(k)}): k must be a whole number from 1 to {MOST_PARTNERS:,}")
    return Take(name, _value(by, f"take={name}()"), k)


def take_of(wanted: Any) -> Take:
    """What `take=` asks for: a word, what min_by() or max_by() made, or the same in text.

    >>> take_of("backward").timely, take_of("min_by(abs(r.x - s.a), 2)").k
    (True, 2)
    """
    if isinstance(wanted, Take):
        return wanted
    if isinstance(wanted, str) and wanted.lower() in TAKES:
        return Take(wanted.lower())
    if isinstance(wanted, str) and "(" in wanted:
        from streamjoin.predicate.lists import parse_call

        name, args = parse_call(wanted, CHOSEN)
        k = args[1].constant if args and len(args) == 2 and args[1].op == "literal" else 1
        if args is None or len(args) not in (1, 2) or (len(args) == 2 and args[1].op != "literal"):
            raise OptionError(f'take="{cut(wanted)}" must be {name}(expression) or {name}(expression, k)')
        return _by(name, args[0], k)
    raise OptionError(
        f"take={shown(wanted)} is not one of {', '.join(TAKES)}, nor sj.{either(f'{name}(...)' for name in CHOSEN)}"
    )


@dataclass(frozen=True)
class Function:
    """An aggregate function; `star`: its argument may be a star, which stands for all rows."""

    name: str
    arity: int
    star: bool = False


FUNCTIONS = {
    function.name: function
    for function in (
        Function("count", 1, star=True),
        Function("sum", 1),
        Function("avg", 1),
        Function("min", 1),
        Function("max", 1),
        Function(MIN_BY, 2),
        Function(MAX_BY, 2),
    )
}


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over the partners of an r: the result's column, the function, its arguments (none: a star)."""

    name: str
    function: str
    args: tuple[Node, ...]

    def __str__(self) -> str:
        from streamjoin.predicate.tree import to_sql

        return f"{self.function}({', '.join(map(to_sql, self.args)) or '*'})"


def aggregates_of(wanted: Any) -> tuple[Aggregate, ...]:
    """What `aggregate=` asks for: by column, a function of the partners as SQL text; or one text with names.

    >>> [str(found) for found in aggregates_of({"n": "count(*)", "bid": "avg(s.bid)"})]
    ['count(*)', 'avg(s.bid)']
    >>> aggregates_of("count(*) AS n")[0].name
    'n'
    """
    from streamjoin.predicate.lists import parse_call

    if wanted is None:
        return ()
    by_name = _by_name(wanted) if isinstance(wanted, str) else wanted
    if not isinstance(by_name, Mapping) or not by_name or not all(isinstance(name, str) and name for name in by_name):
        raise OptionError(
            f'aggregate={shown(wanted)} must name columns, as {{"n": "count(*)", "bid": "avg(s.bid)"}} or '
            '"count(*) AS n, avg(s.bid) AS bid"'
        )
    found = []
    for name, text in by_name.items():
        if not isinstance(text, str):
            raise OptionError(f'aggregate={{"{cut(name)}": {shown(text)}}}: write the function as text, "count(*)"')
        with _inside(f'aggregate={{"{cut(name)}": ...}}'):
            function, args = parse_call(text, FUNCTIONS)
            row = FUNCTIONS[function]
            if (args is None and not row.star) or (args is not None and len(args) != row.arity):
                usage = "a star or one argument" if row.star else f"{row.arity} argument{'s' * (row.arity > 1)}"
                raise OptionError(f'"{cut(text)}": {function} takes {usage}')
        found.append(Aggregate(name, function, args or ()))
    return tuple(found)


def _by_name(text: str) -> dict[str, str]:
    """The aggregates of a list by their names, "" if one has none."""
    from streamjoin.predicate.lists import pieces

    found: dict[str, str] = {}
    for piece in pieces(text):
        if piece.name in found:
            raise OptionError(f"aggregate={shown(text)} has two columns named {piece.name}; give one another name")
        found[piece.name or ""] = piece.text
    return found


@dataclass(frozen=True)
class Item:
    """What a result has: an expression and its name (None: a column's own), or all columns of a side, a star."""

    node: Node | None = None
    name: str | None = None
    star: str = ""


def items_of(wanted: Any) -> tuple[Item, ...] | None:
    """What `select=` asks for: SQL text, a list of texts and expressions, or a dict from names to them.

    >>> items_of(["r.id", "r.price - s.bid AS spread"])[1].name
    'spread'
    """
    if wanted is None:
        return None
    if isinstance(wanted, Mapping):
        return tuple(
            Item(_value(value, f'select={{"{cut(str(name))}": ...}}'), str(name)) for name, value in wanted.items()
        )
    parts = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(parts, (list, tuple)) or not parts:
        raise OptionError(
            f'select={shown(wanted)} must say what the result has: "r.id, r.price - s.bid AS spread", a list, or a dict'
        )
    return tuple(item for part in parts for item in _items(part))


def _items(part: Any) -> list[Item]:
    from streamjoin.predicate.lists import pieces

    if not isinstance(part, str):
        return [Item(_value(part, "select="))]
    with _inside("select="):
        return [
            Item(star=piece.star) if piece.star else Item(_value(piece.text, "select="), piece.name)
            for piece in pieces(part)
        ]


def _value(value: Any, where: str) -> Node:
    """The tree of an expression, in text or of sj.r and sj.s."""
    from streamjoin.predicate.expressions import as_node
    from streamjoin.predicate.sql import parse
    from streamjoin.predicate.tree import Node

    if isinstance(value, Node):
        return value
    with _inside(where):
        return parse(value) if isinstance(value, str) else as_node(value)


@contextmanager
def _inside(where: str) -> Iterator[None]:
    """Says in which option an expression cannot be read."""
    try:
        yield
    except (OptionError, PredicateError) as error:
        if str(error).startswith(where):
            raise
        raise type(error)(f"{where}: {error}") from None
    except TypeError as error:
        raise OptionError(f"{where}: {error}") from None


@dataclass(frozen=True)
class Kind:
    """All that a join hands out. Expressions are untyped in what an option asks for, and typed in a plan."""

    how: How = INNER
    take: Take = Take(ALL)
    aggregate: tuple[Aggregate, ...] = ()
    select: tuple[Item, ...] | None = None

    @property
    def plain(self) -> bool:
        """All pairs, with all of their columns?"""
        return self == PLAIN

    @property
    def per_r(self) -> bool:
        """At most one row for each r, with no column of s?"""
        return not self.how.pairs or bool(self.aggregate)

    def counts_partners(self, ordered: bool) -> bool:
        """Is it enough to know how many partners each r has? A row of semi is as old as its first pair."""
        if self.aggregate:
            return not any(aggregate.args for aggregate in self.aggregate)
        return not self.how.pairs and (self.how.keeps[0] or not ordered)

    def check(self) -> None:
        """Refuses what does not go together."""
        name, words = self.how.name, either(f'"{how.name}"' for how in HOWS.values() if how.reduces)
        if not self.take.every and not self.how.reduces:
            raise OptionError(
                f'take="{cut(str(self.take))}" does not go with how="{name}": it chooses among the partners of an r; '
                f"use how={words}"
            )
        if self.aggregate and not self.how.reduces:
            raise OptionError(f'aggregate= does not go with how="{name}": it gives one row per r; use how={words}')
        if self.aggregate and not self.take.every:
            raise OptionError(
                f'aggregate= does not go with take="{cut(str(self.take))}": it is over all partners of an r; leave one '
                "of them out, or write the choice into on="
            )
        if self.per_r and any(item.star == "s" for item in self.select or ()):
            raise OptionError(self.no_s("s.*"))

    def no_s(self, text: str) -> str:
        """The message about a column of s where a result has rows of r only."""
        why = "aggregate=" if self.aggregate else f'how="{self.how.name}"'
        remedy = "aggregate them" if self.aggregate else 'use how="inner" or "left"'
        return f"select= has {text}, but {why} gives rows of r without columns of s; {remedy}"

    def only(
        self,
        engine: str,
        *,
        how: Collection[str] = (),
        take: bool = False,
        aggregate: bool = False,
        select: bool = False,
    ) -> None:
        """Refuses what an engine cannot do yet; the parameters say what it can."""
        asked = {
            f'how="{self.how.name}"': self.how is INNER or self.how.name in how,
            f'take="{cut(str(self.take))}"': self.take.every or take,
            "aggregate=": not self.aggregate or aggregate,
            "select=": self.select is None or select,
        }
        for word, possible in asked.items():
            if not possible:
                raise UnsupportedError(f"{word} is not supported on {engine} yet; sj.join of two tables has it")


PLAIN = Kind()


def kind_of(how: Any, take: Any, aggregate: Any, select: Any) -> Kind:
    """What a join is asked to hand out, if it goes together.

    >>> kind_of("left_outer", "backward", None, None).how.keeps
    (True, False)
    """
    kind = Kind(how_of(how), take_of(take), aggregates_of(aggregate), items_of(select))
    kind.check()
    return kind
