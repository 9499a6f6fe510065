"""Stores by the name of their access path."""

from __future__ import annotations

from streamjoin.access.band.index import BandStore
from streamjoin.access.hash_store import HashStore
from streamjoin.access.scan_store import ScanStore
from streamjoin.access.segment import Store

STORES: dict[str, type[Store]] = {"scan": ScanStore, "band": BandStore, "hash": HashStore}
