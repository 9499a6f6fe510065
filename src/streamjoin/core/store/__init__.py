"""The tuples of one window segment, column by column, with scan, band and hash access behind one interface."""

from __future__ import annotations

from streamjoin.core.store.arena import Shape, Tuples
from streamjoin.core.store.band import BandStore
from streamjoin.core.store.base import Store
from streamjoin.core.store.frozen import RunReader, freeze
from streamjoin.core.store.hash import HashStore
from streamjoin.core.store.scan import ScanStore

STORES: dict[str, type[Store]] = {"scan": ScanStore, "band": BandStore, "hash": HashStore}

__all__ = ["STORES", "BandStore", "HashStore", "RunReader", "ScanStore", "Shape", "Store", "Tuples", "freeze"]
