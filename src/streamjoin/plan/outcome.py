"""The output of a join in words: which rows and columns, when a row is final, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamjoin.kinds import BACKWARD, FORWARD, NEAREST, Kind
from streamjoin.plan.columns import columns
from streamjoin.predicate.tree import SIDES, to_sql
from streamjoin.predicate.tree import columns as columns_read

if TYPE_CHECKING:
    from streamjoin.plan.plan import Plan

_CHOSEN = {
    BACKWARD: "when s has passed r.time: nothing later can be the latest before it",
    FORWARD: "when s has reached the one that was found: nothing earlier can follow",
    NEAREST: "when s has passed r.time and no closer one can follow",
}


def outcome(plan: Plan, static: bool) -> dict[str, list[str]]:
    """Texts by label; none for an inner join of all columns."""
    kind = plan.kind
    if kind.plain:
        return {}
    found = {"result": _rows(kind)}
    if kind.select is not None:
        found["select"] = [
            f"{to_sql(item.node)}{f' AS {item.name}' * bool(item.name)}" for item in kind.select if item.node
        ]
    found["aggregate"] = [f"{aggregate} AS {aggregate.name}" for aggregate in kind.aggregate]
    found["kept"] = [f"{side}: {', '.join(_kept(plan, side)) or 'no column'}" for side in SIDES]
    found["final"] = ["at once: tables are known as a whole"] if static else _final(plan)
    return {label: texts for label, texts in found.items() if texts}


def _rows(kind: Kind) -> list[str]:
    how = kind.how
    if kind.aggregate:
        return [f"one row for every r{' with a partner' * (not how.keeps[0])}"]
    if not how.pairs:
        return [how.meaning]
    pairs = "the pairs" if kind.take.every else f"of an r's partners: {kind.take}"
    return [pairs, *([how.meaning] if any(how.keeps) else [])]


def _kept(plan: Plan, side: str) -> list[str]:
    """Columns of a side that the result needs."""
    found = []
    for column in columns(plan):
        if column.side is not None and SIDES[column.side] == side:
            found.append(column.source.name)
        nodes = [node for node in (column.node, *(column.aggregate.args if column.aggregate else ())) if node]
        found += sorted(name for owner, name in columns_read(*nodes) if owner == side)
    by = plan.kind.take.by
    found += sorted(name for owner, name in columns_read(*([by] if by else [])) if owner == side)
    return list(dict.fromkeys(found))


def _final(plan: Plan) -> list[str]:
    kind, window = plan.kind, plan.window
    if kind.aggregate:
        found = [f"a row when {window.closing(0)}: all partners are known then"]
    elif not kind.take.every:
        closed = f"when {window.closing(0)}: all partners are known then"
        found = [f"a choice {closed if window.by_rows else _CHOSEN.get(kind.take.name, closed)}"]
    elif not any(kind.how.keeps):
        return ["a pair at once" if kind.how.pairs else "a row when its first partner is found"]
    else:
        found = ["a pair at once"] if kind.how.pairs else []
    found += [
        f"an {SIDES[side]} without a partner when {window.closing(side)}: none can follow then"
        for side, preserved in enumerate(kind.how.keeps)
        if preserved and not kind.aggregate and (window.by_rows or kind.take.name != BACKWARD)
    ]
    quiet = "a quiet stream holds this back: advance() says that nothing follows"
    return found if window.by_rows else [*found, quiet]
