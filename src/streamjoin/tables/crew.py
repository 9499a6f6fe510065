"""Threads for one join of two tables: they run compiled code and Arrow, both without the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")

PART = 1 << 16  # rows that are worth a task


class PerThread(Generic[T]):
    """One of a kind for every thread that asks."""

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
    """So many workers, of which the calling thread is one if it is the only one."""

    def __init__(self, workers: int, pool: ThreadPoolExecutor | None) -> None:
        self.workers = workers
        self._pool = pool

    def each(self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> list[T]:
        """The function's results for the tasks, in their order. The first failure cancels what has not begun."""
        tasks = list(tasks)
        if self._pool is None or len(tasks) == 1:
            return [function(*task) for task in tasks]
        futures = [self._pool.submit(function, *task) for task in tasks]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
        wait(futures)
        return [future.result() for future in sorted(futures, key=lambda future: future.cancelled())]

    def cut(self, n: int, least: int = PART) -> list[tuple[int, int]]:
        """So many rows in parts: several for every worker, so that none waits long for another."""
        count = max(1, min(4 * self.workers, n // least)) if self.workers > 1 else 1
        return [(n * k // count, n * (k + 1) // count) for k in range(count)]


@contextmanager
def crew(workers: int) -> Iterator[Crew]:
    """Workers for the time of a join. Whoever leaves it early waits for what is running, which takes milliseconds."""
    if workers == 1:
        yield Crew(1, None)
        return
    pool = ThreadPoolExecutor(workers, "streamjoin-tables")
    try:
        yield Crew(workers, pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
