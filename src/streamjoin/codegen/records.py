"""Records: an annotated class is the one declaration of shared memory that NumPy, Numba and mypy read.

    class Message(Record):
        kind: Word
        count: PerSide          # one word for r, one for s

    message = Message.new()     # in Python: a NumPy record, zeroed
    message.count[1] = 3        # the same text compiles
    send(message)               # compiled code takes a record, an array of them, or an address:
                                # codegen.intrinsics.record_at(address, Message)

A class that inherits from another one has the fields of its base first, at the same offsets, so code for the base can
read it. Pass addresses where a call from Python must be fast.
"""

from __future__ import annotations

from typing import Annotated, Any, Self, cast, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]

Word = Annotated[int, np.int64]
Address = Annotated[int, np.int64]
WORDS: Array = np.empty(0, np.int64)  # of the types of arguments, see `jit.njit`
KEYS: Array = np.empty(0, np.uint32)
PerSide = Annotated[npt.NDArray[np.int64], (np.int64, 2)]  # of r, of s


class RecordType(type):
    """The class of record classes. Numba knows a record class by it: see `codegen/intrinsics.py`."""

    dtype: np.dtype[np.void]

    def offset(cls, name: str) -> int:
        """Where a field lies in a record, in bytes."""
        assert cls.dtype.fields is not None
        return cls.dtype.fields[name][1]

    def word(cls, name: str) -> int:
        """Which word of a record a field is, for `words`."""
        return cls.offset(name) // 8


class Record(metaclass=RecordType):
    """The base class of records.

    A field is annotated with a record class, or with `Annotated[type for mypy, type for NumPy]`. The latter is a dtype
    or a record class, or a tuple of one of these and the lengths of an array.

    >>> class Box(Record):
    ...     count: Word
    ...     low: Annotated[Array, (np.float32, 3)]
    >>> box = Box.new()
    >>> box.low[2] = 1.5
    >>> box.low.tolist(), Box.dtype.itemsize
    ([0.0, 0.0, 1.5], 24)
    """

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        fields = [(name, *_numpy_type(cls, name, hint)) for name, hint in hints.items()]
        # As np.record, so that Python reads fields by name, too.
        cls.dtype = np.dtype((np.record, np.dtype(fields, align=True)))

    @classmethod
    def new(cls) -> Self:
        """A zeroed record."""
        return cast(Self, cls.array(1)[0])

    @classmethod
    def array(cls, *shape: int) -> Array:
        """Zeroed records in an array."""
        return np.zeros(shape, cls.dtype)


def _numpy_type(record: type, name: str, hint: Any) -> tuple[Any, ...]:
    """The type of a field, and its shape if it is an array."""
    if hasattr(np.record, name):
        raise TypeError(
            f"{record.__name__}.{name} would be hidden by an attribute of NumPy's records; choose another name"
        )
    if isinstance(hint, RecordType):
        declared: tuple[Any, ...] = (hint,)
    elif hasattr(hint, "__metadata__"):
        (what,) = hint.__metadata__
        declared = what if isinstance(what, tuple) else (what,)
    else:
        raise TypeError(f"{record.__name__}.{name} is annotated with {hint}, which has no NumPy type")
    element, *shape = declared
    dtype = element.dtype if isinstance(element, RecordType) else element
    return (dtype, tuple(shape)) if shape else (dtype,)


def address(array: Array | Record) -> int:
    """Where an array or a record begins. (Arrow tells it in a tenth of the time that `array.ctypes.data` takes.)

    >>> numbers = np.zeros((4, 3))
    >>> address(numbers[:, 1]) - address(numbers)
    8
    """
    try:
        return int(pa.py_buffer(array).address)
    except ValueError:  # there are gaps between its values
        return int(cast(Array, array).__array_interface__["data"][0])


def words(records: Array) -> memoryview:
    """Records in an array as words: Python reads and writes a word much faster by its index than by its name."""
    return memoryview(records.view(np.int64))  # type: ignore[arg-type]
