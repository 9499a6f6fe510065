"""Which results of a join one Spark operator outputs, and about which tuples it decides.

The cell that decides about a tuple must see all its partners. So that side's tuples have one home, the cell that owns
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamjoin.kinds import BACKWARD, FORWARD, HOWS, NEAREST, Kind
from streamjoin.predicate.tree import to_sql

Sides = tuple[bool, bool]  # r, s


@dataclass(frozen=True)
class Duty:
    """pairs    pairs come out as they are found
    keeps    sides whose tuples come out when they can have no partner any more
    first    an r comes out when its first partner is found
    waits    an r comes out when all its partners are known: the best of them, or their aggregates
    """

    pairs: bool = True
    keeps: Sides = (False, False)
    first: bool = False
    waits: bool = False

    @property
    def owners(self) -> Sides:
        """The sides about whose tuples the operator decides."""
        return self.keeps[0] or self.first or self.waits, self.keeps[1]

    @property
    def deciding(self) -> bool:
        return any(self.owners)

    def halves(self) -> tuple[Duty, Duty]:
        """For two operators, which decide about one side each: the pairs and what is left of r; what is left of s."""
        return Duty(self.pairs, (True, False)), Duty(False, (False, True))


PAIRS = Duty()


def duty_of(kind: Kind) -> Duty:
    """The duty of a kind of join."""
    if kind.aggregate or not kind.take.every:
        return Duty(False, kind.how.keeps, waits=True)
    return Duty(kind.how.pairs, kind.how.keeps, first=not kind.how.pairs and not any(kind.how.keeps))


def kind_of(kind: Kind, duty: Duty) -> Kind:
    """The kind of join that the operator computes; it outputs the rows that its duty names."""
    if all(kind.how.keeps) and not all(duty.keeps):
        return Kind(HOWS["left" if duty.keeps[0] else "right"], kind.take, kind.aggregate, kind.select)
    return kind


def identity(kind: Kind, duty: Duty) -> str:
    """What checkpoints know a deciding operator by: never to be written otherwise."""
    parts = [kind.how.name, str(kind.take)]
    parts += [f"{found.function}({', '.join(map(to_sql, found.args)) or '*'})" for found in kind.aggregate]
    return ", ".join(parts) + ("" if duty == duty_of(kind) else f"; keeps {'r' if duty.keeps[0] else 's'}")


def final(kind: Kind, duty: Duty) -> list[str]:
    """When rows of a stream are output, in words."""
    if duty.first:
        return ["a row when its first partner is found"]
    found = ["a pair at once"] if duty.pairs else []
    if duty.waits:
        found.append(f"{'a row' if kind.aggregate else 'a choice'} of an r when the watermark has passed {_end(kind)}")
    if not duty.waits or kind.take.hastened:
        found += [
            f"an {side} without a partner when the watermark has passed the end of its window"
            for side, kept in zip("rs", duty.keeps, strict=True)
            if kept
        ]
    return [*found, "a quiet stream holds this back, since it holds back the watermark"]


def _end(kind: Kind) -> str:
    ends = {
        BACKWARD: "r.time",
        FORWARD: "the time of the partner that was found",
        NEAREST: "r.time, and no closer partner can follow",
    }
    return ends.get(kind.take.name, "the end of its window")
