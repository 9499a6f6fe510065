"""Numba's runtime, which counts references to arrays: its machine code is kept, too.

Numba compiles it anew in each process. That takes a tenth of a small join's first call, and 20 MB, because the half of
LLVM that optimises is read from the disk.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from typing import Any

import llvmlite
import numba
from numba.core import config as _config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import nrtdynmod as _nrtdynmod
from numba.core.runtime.nrt import rtsys as _rtsys

from streamjoin.folders import kept

CHECKSUM = 32  # bytes

# Numba annotates some of its functions and not others.
config: Any = _config
nrtdynmod: Any = _nrtdynmod
rtsys: Any = _rtsys


def initialize(context: Any) -> None:
    """Prepares the runtime for machine code of this context, once in a process."""
    if rtsys._init:
        return
    with global_compiler_lock:  # which the runtime takes as well
        compiling = nrtdynmod.compile_nrt_functions
        nrtdynmod.compile_nrt_functions = _library  # what the runtime asks for its machine code
        try:
            rtsys.initialize(context)
        finally:
            nrtdynmod.compile_nrt_functions = compiling


def _library(context: Any) -> Any:
    """The runtime's functions, from the disk or compiled."""
    codegen = context.codegen()
    versions = sys.implementation.cache_tag, numba.__version__, llvmlite.__version__
    key = (codegen.magic_tuple(), versions, config.DEBUG_NRT)
    name = f"runtime-{hashlib.sha256(str(key).encode()).hexdigest()[:32]}.kernel"
    found = kept("kernels").read(name, renew=1)
    if found is not None and hashlib.sha256(memoryview(found)[CHECKSUM:]).digest() == found[:CHECKSUM]:
        try:
            written_for, state = pickle.loads(memoryview(found)[CHECKSUM:])
            if written_for == key:
                return codegen.unserialize_library(state)
        except Exception:  # it is no longer as it was
            pass
    module, library = nrtdynmod.create_nrt_module(context)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    content = pickle.dumps((key, library.serialize_using_object_code()))
    kept("kernels").keep(name, hashlib.sha256(content).digest(), content)
    return library
