"""Threads for one join of two tables: they run compiled code and Arrow, both without the GIL."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")

PART = 1 << 16  # rows that are worth a task
SIDE = 1 << 18  # rows of a side that one worker takes as a whole, at most


class PerThread(Generic[T]):
    """One object per thread, created on first use."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._made, self._lock = make, dict[int, T](), threading.Lock()

    def mine(self) -> T:
        found = self._made.get(threading.get_ident())
        if found is None:
            with self._lock:
                found = self._made[threading.get_ident()] = self._make()
        return found

    def all(self) -> list[T]:
        return list(self._made.values()) or [self._make()]


class Crew:
    """A number of workers, of which the calling thread is one."""

    def __init__(self, workers: int, pool: ThreadPoolExecutor | None) -> None:
        self.workers = workers
        self._pool = pool

    def each(self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> list[T]:
        """The function's results for the tasks, in their order. After a failure no more of them begin."""
        tasks = list(tasks)
        if self._pool is None or len(tasks) == 1:
            return [function(*task) for task in tasks]
        rest, failures = deque(range(len(tasks))), dict[int, Exception]()
        results: list[Any] = [None] * len(tasks)

        def work() -> None:
            while rest:
                try:
                    k = rest.popleft()
                except IndexError:  # another worker took it
                    return
                try:
                    results[k] = function(*tasks[k])
                except Exception as error:
                    failures[k] = error
                    rest.clear()

        helpers = [self._pool.submit(work) for _ in range(min(self.workers, len(tasks)) - 1)]
        try:
            work()
        finally:
            rest.clear()
        for helper in helpers:
            if not helper.cancel():  # it has begun
                helper.result()
        if failures:
            raise failures[min(failures)]
        return results

    def sides(self, function: Callable[..., T], tasks: Sequence[tuple[Any, ...]], rows: Sequence[int]) -> list[T]:
        """The results of a function for two sides with these numbers of rows; the function gets a crew.

        Small sides run in parallel, others one after the other: each step on small sides is over before other threads
        could begin with a part of it.
        """
        if self.workers > 1 and max(rows) <= SIDE and (min(rows) > max(rows) // 2 or max(rows) < 2 * PART):
            return self.each(function, [(*task, ALONE) for task in tasks])
        return [function(*task, self) for task in tasks]

    def cut(self, n: int, least: int = PART) -> list[tuple[int, int]]:
        """Divides rows into several parts per worker, so that no worker waits long for another."""
        count = max(1, min(4 * self.workers, n // least)) if self.workers > 1 else 1
        return [(n * k // count, n * (k + 1) // count) for k in range(count)]


ALONE = Crew(1, None)


@contextmanager
def crew(workers: int) -> Iterator[Crew]:
    """Workers for the duration of a join. Leaving the block early waits for running tasks, which takes milliseconds."""
    if workers == 1:
        yield Crew(1, None)
        return
    pool = ThreadPoolExecutor(workers - 1, "streamjoin-tables")
    try:
        yield Crew(workers, pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
