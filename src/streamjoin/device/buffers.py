"""Where windows and bitmaps are stored. HELLS-Join 5.1.

host     in memory that device and CPU share: results are mapped, nothing is copied
device   in the device's own memory: results are copied to the CPU
parts    in the CPU's memory, where the window is too large for the device: every comparison copies it, part by part
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamjoin.algorithms.hells import WORD, Fifo, moves
from streamjoin.codegen.records import Array
from streamjoin.device.devices import opencl
from streamjoin.device.opencl_text import HEAD, Field

PART = 1 << 14  # words of a window that is compared in parts
ALIGNED = 64
SHARE = 0.4  # of the device's memory, for one window


class Window:
    """One window on a device: its FIFO, array by array. All commands go through its queue, in order."""

    def __init__(
        self, context: Any, queue: Any, fields: tuple[Field, ...], kernel: Any, placement: str, expected: int
    ) -> None:
        self.fifo = Fifo(expected)
        self.placement = placement
        self.queue = queue
        self.fields = fields
        self._context = context
        self._kernel = kernel
        self._arrays: list[Any] = []
        self._scratch: list[Any] = []
        self._resize(self.fifo.capacity)

    @property
    def nbytes(self) -> int:
        return int(self.fifo.capacity * self._width + sum(scratch.size for scratch in self._scratch))

    @property
    def _width(self) -> int:
        return sum(field.dtype.itemsize for field in self.fields)

    def add(self, staged: Any, columns: list[Array], at: Array) -> Any:
        """Adds a batch, staged on the device as these columns. Returns the command's event, if there is one."""
        count, fifo = len(at), self.fifo
        capacity = fifo.needed(count)
        if capacity != fifo.capacity:
            self._resize(capacity)
        place = fifo.head % fifo.capacity
        fifo.push(at)
        if self.placement == "parts":
            self.queue.finish()  # running comparisons read what may be overwritten now
            room = min(count, fifo.capacity - place)
            for array, column in zip(self._arrays, columns, strict=True):
                array[place : place + room] = column[:room]
                array[: count - room] = column[room:]
            return None
        numbers = (np.uint32(0), np.uint32(count), np.uint32(place), np.uint32(fifo.capacity))
        self._kernel.set_args(staged, *numbers, *self._arrays)
        return opencl().enqueue_nd_range_kernel(self.queue, self._kernel, (count,), None)

    def parts(self, most: int) -> Iterator[tuple[list[Any], int, int, int]]:
        """The live words, in pieces of limited size: arrays on the device, place there, place in the stream, count."""
        turn = self.fifo.capacity // WORD
        most = min(most, PART) if self.placement == "parts" else most
        for first, stop in self.fifo.ranges():
            for begin in range(first, stop, most):
                count = min(most, stop - begin)
                if self.placement != "parts":
                    yield self._arrays, begin % turn, begin, count
                    continue
                here = slice(begin % turn * WORD, (begin % turn + count) * WORD)
                for scratch, array in zip(self._scratch, self._arrays, strict=True):
                    opencl().enqueue_copy(self.queue, scratch, array[here], is_blocking=False)
                yield self._scratch, 0, begin, count

    def row(self, position: int) -> tuple[Any, ...] | None:
        """The predicate's columns of a tuple; None if its slot was reused."""
        self.queue.finish()
        if position < self.fifo.head - self.fifo.capacity:
            return None
        place, values = position % self.fifo.capacity, []
        for field, array in zip(self.fields, self._arrays, strict=True):
            if field.name.startswith("w"):
                value = np.zeros(1, field.dtype)
                if self.placement == "parts":
                    value[0] = array[place]
                else:
                    opencl().enqueue_copy(self.queue, value, array, src_offset=place * field.dtype.itemsize)
                values.append(value[0])
        return tuple(values)

    def _resize(self, capacity: int) -> None:
        """Moves the live tuples into arrays of another size; to the CPU's memory if the device's is too small."""
        before, old = self.placement, self._arrays
        if not self._fits(capacity):
            self.placement = "parts"
        if self.placement == "parts" and not self._scratch:
            self._scratch = [self._buffer(PART * WORD, field) for field in self.fields]
        self._arrays = [
            np.zeros(capacity, field.dtype) if self.placement == "parts" else self._buffer(capacity, field)
            for field in self.fields
        ]
        if before == "parts":
            self.queue.finish()
        for source, target, words in moves(self.fifo, capacity):
            for field, array, former in zip(self.fields, self._arrays, old, strict=True):
                size = field.dtype.itemsize * WORD
                if before == "parts":
                    array[target * WORD : (target + words) * WORD] = former[source * WORD : (source + words) * WORD]
                elif self.placement == "parts":
                    into = array[target * WORD : (target + words) * WORD]
                    opencl().enqueue_copy(self.queue, into, former, src_offset=source * size)
                else:
                    places = {"src_offset": source * size, "dst_offset": target * size, "byte_count": words * size}
                    opencl().enqueue_copy(self.queue, array, former, **places)
        self.fifo.capacity = capacity

    def _fits(self, capacity: int) -> bool:
        device = self._context.devices[0]
        largest = max(field.dtype.itemsize for field in self.fields) * capacity
        total = capacity * self._width
        return bool(largest <= device.max_mem_alloc_size and total <= SHARE * device.global_mem_size)

    def _buffer(self, count: int, field: Field) -> Any:
        cl = opencl()
        shared = cl.mem_flags.ALLOC_HOST_PTR if self.placement == "host" else 0
        return cl.Buffer(self._context, cl.mem_flags.READ_WRITE | shared, count * field.dtype.itemsize)


class Bitmap:
    """Room for the results of one comparison, written by the device and read by the CPU."""

    def __init__(self, context: Any, queue: Any, shared: bool) -> None:
        self.buffer: Any = None
        self._context = context
        self._queue = queue
        self._shared = shared
        self._room = 0
        self._host: Array | None = None
        self._mapped: Any = None

    def make_room(self, words: int) -> None:
        """Makes room for this many words of results. The bitmap is free."""
        if words <= self._room:
            return
        cl, self._room = opencl(), 1 << (words - 1).bit_length()
        empty = np.zeros(HEAD + self._room, np.uint32)
        shared = cl.mem_flags.ALLOC_HOST_PTR if self._shared else 0
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR | shared
        self.buffer = cl.Buffer(self._context, flags, hostbuf=empty)
        self._host = None if self._shared else empty

    def fetch(self, words: int) -> tuple[Array, Any]:
        """Starts the transfer of this many words of results. Returns them and the event that ends it."""
        cl, count = opencl(), HEAD + words
        if self._host is not None:
            return self._host[:count], cl.enqueue_copy(self._queue, self._host[:count], self.buffer, is_blocking=False)
        self._mapped, event = cl.enqueue_map_buffer(
            self._queue, self.buffer, cl.map_flags.READ, 0, (count,), np.uint32, is_blocking=False
        )
        return self._mapped, event

    def give_back(self) -> None:
        """The results have been read."""
        if self._mapped is not None:
            self._mapped.base.release(self._queue)
            self._mapped = None


def stage(context: Any, fields: tuple[Field, ...], columns: list[Array]) -> Any:
    """A batch in one piece on the device: the places of its arrays, then the arrays."""
    cl, count = opencl(), len(columns[0])
    sizes = [-(-field.dtype.itemsize * count // ALIGNED) * ALIGNED for field in fields]
    head = -(-8 * len(fields) // ALIGNED) * ALIGNED
    ends = head + np.cumsum(sizes)
    whole = np.empty(int(ends[-1]), np.uint8)
    whole[: 8 * len(fields)].view(np.uint64)[:] = ends - sizes
    for field, end, size, column in zip(fields, ends, sizes, columns, strict=True):
        begin = int(end - size)
        whole[begin : begin + field.dtype.itemsize * count].view(field.dtype)[:] = column
    return cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=whole)
