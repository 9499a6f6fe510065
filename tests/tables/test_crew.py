"""Workers of a join of two tables: results in order, failures, interruptions, and sides that one worker takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from streamjoin.tables.crew import ALONE, PART, SIDE, Crew, crew


@pytest.fixture
def two() -> Iterator[Crew]:
    with crew(2) as workers:
        yield workers


def test_results_come_in_the_order_of_the_tasks(two: Crew) -> None:
    def late(k: int) -> int:
        time.sleep(0.001 * (k % 3))
        return k

    assert two.each(late, [(k,) for k in range(20)]) == list(range(20))
    assert two.each(late, []) == []


def test_the_calling_thread_works_too_and_another_one_beside_it(two: Crew) -> None:
    both = threading.Barrier(2, timeout=60)

    def meet(k: int) -> int:
        both.wait()  # for ever, if one thread did all of it
        return threading.get_ident()

    assert len({threading.get_ident(), *two.each(meet, [(0,), (1,)])}) == 2


def test_the_first_failure_is_raised_and_ends_the_others(two: Crew) -> None:
    begun = []

    def fail(k: int) -> None:
        begun.append(k)
        if k == 1:
            raise ValueError("task 1")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="task 1"):
        two.each(fail, [(k,) for k in range(1000)])
    assert len(begun) < 100
    assert two.each(lambda k: k, [(1,), (2,)]) == [1, 2], "it works on afterwards"


def test_an_interrupted_caller_leaves_no_thread_at_work() -> None:
    begun = []

    def interrupted(k: int) -> None:
        begun.append(k)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt), crew(2) as workers:
        workers.each(interrupted, [(k,) for k in range(1000)])
    count = len(begun)
    time.sleep(0.05)
    assert len(begun) == count < 100


@pytest.mark.parametrize(
    ("rows", "alone"),
    [
        ((SIDE, SIDE), True),
        ((SIDE + 1, 10), False),
        ((PART, 10), True),  # too few rows for two workers anyway
        ((4 * PART, 10), False),  # or one worker would do nearly all of it
    ],
)
def test_small_sides_of_like_size_are_taken_by_one_worker_each(two: Crew, rows: tuple[int, int], alone: bool) -> None:
    given = two.sides(lambda name, workers: (name, workers), [("r",), ("s",)], rows)
    assert given == [("r", ALONE if alone else two), ("s", ALONE if alone else two)]
