"""The records that a worker thread shares with its neighbours, the driver and the collector."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from streamjoin.algorithms.protocol import Call
from streamjoin.codegen.records import Address, Array, PerSide, Record, Word

RESULT_BLOCKS, RESULT_SIZE = 16, 1 << 15


class Status(Record):
    """The progress and load of a node, for other threads."""

    finished: PerSide  # tuples below have been compared with all they had to meet here
    needed_from: PerSide  # the node reads no tuple below from the tape
    load: PerSide  # of the window, for neighbours
    held: PerSide  # tuples in the window
    progress: Word  # grows with everything that the node does
    idle: Word  # equals `progress` while the node has nothing to do
    comparisons: Word
    results: Word
    messages: Word
    sent: Word
    forwarded: Word
    unused: Word  # two cache lines


class Block(Record):
    """Results: numbers of r, and of s."""

    count: Word
    numbers: Annotated[Array, (np.int64, 2, RESULT_SIZE)]


class Worker(Record):
    """The state of one worker, and the addresses of all that it reads and writes."""

    act: Address  # of its protocol
    call: Call  # what it is called with
    on_tape: Word  # the node's window lies on the tape itself
    node: Address
    actions: Address
    control: Address
    eventcount: Address
    status: Address
    inbox: PerSide  # per direction: the queue in front of this node,
    outbox: PerSide  # and the queue in front of the next node, 0 at the end
    beside: PerSide  # per direction: the status of the next node
    results: Address  # the queue of blocks to the collector
    filled: Word  # results in the present block
    segments: PerSide  # Stored: the node's windows,
    tapes: PerSide  # and all of the tapes
    searches: PerSide  # Probing, by the side that probes
    failed: Word  # the failed comparison, 2 * side + (0: with the node's window, 1: with the tape), or EXCEPTION
