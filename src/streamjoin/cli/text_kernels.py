"""A look at every byte of a CSV or NDJSON file before a parser sees it: where it is broken, and how it is laid out.

The parsers take some broken text for data (an unclosed quote, bytes that are not UTF-8), and NDJSON that is nested too
deeply overflows the stack of theirs. Lines end with LF, CRLF or CR and are counted from 1, places in a line from 1 in
bytes. A byte order mark at the beginning is passed over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamjoin.codegen.jit import inner, njit

# What is wrong.
SOUND = 0
NOT_UTF8 = 1
UNCLOSED = 2  # a quote that is never closed; of NDJSON: before the line ends
AFTER_QUOTE = 3  # CSV: a field in quotes that goes on after the closing one
FIELDS = 4  # CSV: another number of fields than the header has
STRAY = 5  # a byte that is not allowed there: NUL, and in NDJSON other control characters
NO_OBJECT = 6  # NDJSON: something else than an object between objects
DEEP = 7
UNFINISHED = 8  # NDJSON: the text ends inside an object


class Look(NamedTuple):
    """What was seen: a fault and where it is, or else how the text is laid out."""

    fault: int
    line: int
    at: int  # how many bytes stand before it
    place: int  # the same in its line, from 1
    count: int  # the number of the field, how many fields, or how many levels
    until: int  # the line where it was noticed
    rows: int  # of CSV with the header
    columns: int  # CSV: fields of the header; NDJSON: keys of all objects taken together
    longest: int  # bytes of the longest row
    across: bool  # NDJSON: some object goes on in the next line
    incomplete: int  # NDJSON: objects with fewer keys than requested
    first: int  # the number of the first of them


_QUOTE, _BACKSLASH, _LF, _CR, _COMMA, _COLON = 34, 92, 10, 13, 44, 58
_OPEN, _CLOSE, _OTHER = 1, 2, 3


# By byte: 0 for those that may be passed over.
_IN_OBJECT = np.zeros(256, np.uint8)
_IN_OBJECT[:32] = _IN_OBJECT[127:] = _OTHER
_IN_OBJECT[9] = 0
_IN_OBJECT[[_QUOTE, _LF, _CR, _COLON]] = _OTHER
_IN_OBJECT[[ord("{"), ord("[")]] = _OPEN
_IN_OBJECT[[ord("}"), ord("]")]] = _CLOSE
_IN_STRING = np.zeros(256, np.uint8)
_IN_STRING[:32] = _IN_STRING[128:] = 1
_IN_STRING[[_QUOTE, _BACKSLASH]] = 1
_IN_FIELD = np.zeros(256, np.uint8)
_IN_FIELD[128:] = 1
_IN_FIELD[[0, _LF, _CR, _COMMA]] = 1
_IN_QUOTES = np.zeros(256, np.uint8)
_IN_QUOTES[128:] = 1
_IN_QUOTES[[_LF, _CR, _QUOTE]] = 1


@inner(forceinline=True)
def _fault(fault, line, head, at, count, until):
    return Look(fault, line, at, at - head + 1, count, until, 0, 0, 0, False, 0, -1)


@inner
def _utf8(data, i):
    """How many bytes the character at i has that begins with a byte above 127; 0 if it is not UTF-8."""
    first, left = data[i], data.shape[0] - i
    if first < 0xC2 or first > 0xF4 or left < 2:
        return 0
    low, high = 0x80, 0xBF
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    if data[i + 1] < low or data[i + 1] > high:
        return 0
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if left < size:
        return 0
    for k in range(2, size):
        if data[i + k] & 0xC0 != 0x80:
            return 0
    return size


@inner(forceinline=True)
def _skip(data, i, table):
    """The next place, from i on, whose byte the table does not pass over. Indices without a sign are faster."""
    k, n = np.uintp(i), np.uintp(data.shape[0])
    while k < n and table[data[k]] == 0:
        k += np.uintp(1)
    return np.int64(k)


@inner(forceinline=True)
def _start(data):
    """Where text begins: behind a byte order mark."""
    return 3 if data.shape[0] >= 3 and data[0] == 0xEF and data[1] == 0xBB and data[2] == 0xBF else 0


@inner(forceinline=True)
def _ends_line(data, i):
    """Is this the last byte of a line? CR is not if LF follows."""
    return data[i] == _LF or (data[i] == _CR and (i + 1 == data.shape[0] or data[i + 1] != _LF))


@njit(nogil=True, cache=True)
def look_at_ndjson(data, deepest, keys_wanted, wanted, begins, ends):
    """Looks at objects, counting those with fewer than `keys_wanted` keys.

    Where the objects with the numbers `wanted`, in ascending order, begin and end is written to `begins` and `ends`.
    """
    n = data.shape[0]
    i = head = _start(data)
    line, rows, keys, longest, incomplete, first, found, across = 1, 0, 0, 0, 0, -1, 0, False
    while i < n:
        byte = data[i]
        if byte in (_LF, _CR):
            if _ends_line(data, i):
                line, head = line + 1, i + 1
            i += 1
            continue
        if byte == 32 or byte == 9:
            i += 1
            continue
        if byte != 123:
            fault = STRAY if byte == 0 else NOT_UTF8 if byte >= 128 and _utf8(data, i) == 0 else NO_OBJECT
            return _fault(fault, line, head, i, 0, line)
        begin, begin_line, begin_head, before = i, line, head, keys
        depth, most = 0, 0
        while True:
            i = _skip(data, i, _IN_OBJECT)
            if i == n:
                break
            byte = data[i]
            kind = _IN_OBJECT[byte]
            if byte == _QUOTE:
                opened = i
                i += 1
                while True:
                    i = _skip(data, i, _IN_STRING)
                    if i >= n:
                        break
                    byte = data[i]
                    if byte == _QUOTE:
                        break
                    elif byte == _BACKSLASH:
                        i += 2
                    elif byte >= 128:
                        size = _utf8(data, i)
                        if size == 0:
                            return _fault(NOT_UTF8, line, head, i, 0, line)
                        i += size
                    elif byte in (_LF, _CR):
                        i = n
                    else:
                        return _fault(STRAY, line, head, i, 0, line)
                if i >= n:
                    return _fault(UNCLOSED, line, head, opened, 0, line)
                i += 1
            elif kind == _OPEN:
                depth += 1
                most = max(most, depth)
                i += 1
            elif kind == _CLOSE:
                depth -= 1
                i += 1
                if depth == 0:
                    break
            elif byte == _COLON:
                keys += depth == 1
                i += 1
            elif byte in (_LF, _CR):
                if _ends_line(data, i):
                    line, head = line + 1, i + 1
                i += 1
            else:
                fault = NOT_UTF8 if byte >= 128 and _utf8(data, i) == 0 else STRAY
                return _fault(fault, line, head, i, 0, line)
        if most > deepest:
            return _fault(DEEP, begin_line, begin_head, begin, most, line)
        if depth != 0:
            return _fault(UNFINISHED, begin_line, begin_head, begin, 0, line)
        if keys - before < keys_wanted:
            first = rows if incomplete == 0 else first
            incomplete += 1
        if found < wanted.shape[0] and wanted[found] == rows:
            begins[found], ends[found] = begin, i
            found += 1
        across |= line != begin_line
        longest = max(longest, i - begin)
        rows += 1
    return Look(SOUND, line, i, 0, 0, 0, rows, keys, longest, across, incomplete, first)


@njit(nogil=True, cache=True)
def look_at_csv(data, wanted):
    """Looks at rows up to the one with the number `wanted`, or at all if there is none such; the header is row 0."""
    n = data.shape[0]
    i = head = _start(data)
    line, rows, columns, longest = 1, 0, 0, 0
    while i < n:
        if data[i] == _LF or data[i] == _CR:  # an empty line
            if _ends_line(data, i):
                line, head = line + 1, i + 1
            i += 1
            continue
        if rows == wanted:
            break
        begin, begin_line, fields = i, line, 1
        while True:
            if i < n and data[i] == _QUOTE:
                opened, opened_line, opened_head = i, line, head
                i += 1
                while True:
                    i = _skip(data, i, _IN_QUOTES)
                    if i == n:
                        break
                    byte = data[i]
                    if byte == _QUOTE:
                        if i + 1 == n or data[i + 1] != _QUOTE:
                            break
                        i += 2
                    elif byte >= 128:
                        size = _utf8(data, i)
                        if size == 0:
                            return _fault(NOT_UTF8, line, head, i, fields, line)
                        i += size
                    else:
                        if _ends_line(data, i):
                            line, head = line + 1, i + 1
                        i += 1
                if i >= n:
                    return _fault(UNCLOSED, opened_line, opened_head, opened, fields, line)
                i += 1
                if i < n and data[i] != _COMMA and data[i] != _LF and data[i] != _CR:
                    return _fault(AFTER_QUOTE, opened_line, opened_head, opened, fields, line)
            else:
                while True:
                    i = _skip(data, i, _IN_FIELD)
                    if i == n:
                        break
                    byte = data[i]
                    if byte >= 128:
                        size = _utf8(data, i)
                        if size == 0:
                            return _fault(NOT_UTF8, line, head, i, fields, line)
                        i += size
                    elif byte == 0:
                        return _fault(STRAY, line, head, i, fields, line)
                    else:
                        break
            if i >= n or data[i] != _COMMA:
                break
            i += 1
            fields += 1
        if rows == 0:
            columns = fields
        elif fields != columns:
            return _fault(FIELDS, begin_line, begin, begin, fields, line)
        longest = max(longest, i - begin)
        rows += 1
    return Look(SOUND, line, i, 0, 0, 0, rows, columns, longest, False, 0, -1)
