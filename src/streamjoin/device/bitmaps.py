"""The interpretation of bitmaps: from set bits to pairs. HELLS-Join 4.2."""

from __future__ import annotations

import numpy as np

from streamjoin.algorithms.hells import WORD
from streamjoin.codegen.jit import njit

ALL = np.uint32(0xFFFFFFFF)
NEXT, FOUND = 0, 1  # the cursor's fields


@njit(nogil=True, error_model="numpy", cache=True)
def interpret(words, probes, probe, stored, out_probe, out_stored, cursor):
    """Writes a pair of tuple numbers for every set bit. Returns False when the room for pairs is used up: call again.

    Word k has the results of probe number probe + k % probes with stored tuples from stored + k // probes * 32 on.
    """
    k, found, stop, room = cursor[NEXT], 0, len(words), len(out_probe) - WORD
    done = True
    while k < stop:
        while (
            k + 8 <= stop
            and (
                words[k]
                | words[k + 1]
                | words[k + 2]
                | words[k + 3]
                | words[k + 4]
                | words[k + 5]
                | words[k + 6]
                | words[k + 7]
            )
            == 0
        ):
            k += 8
        end = min(k + 8, stop)
        while k < end:
            word = words[k]
            if word != 0:
                if found > room:
                    done = False
                    break
                number, first = probe + k % probes, stored + k // probes * WORD
                if word == ALL:
                    for b in range(WORD):
                        out_probe[found + b] = number
                        out_stored[found + b] = first + b
                    found += WORD
                else:
                    for b in range(WORD):  # every bit is written, and the next one overwrites it unless it was set
                        out_probe[found] = number
                        out_stored[found] = first + b
                        found += np.int64((word >> np.uint32(b)) & np.uint32(1))
            k += 1
        if not done:
            break
    cursor[NEXT], cursor[FOUND] = k, found
    return done
