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

from streamjoin.codegen.kept_library import KeptLibrary, to_keep
from streamjoin.codegen.kernel_files import Target, keep, read

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

    def key(target: Target) -> tuple[Any, ...]:
        return target, versions, config.DEBUG_NRT

    def name(target: Target) -> str:
        return f"runtime-{hashlib.sha256(str(key(target)).encode()).hexdigest()[:32]}.kernel"

    target = codegen.magic_tuple()
    for one, content in read(target, name):
        try:
            written_for, state = pickle.loads(content)
            if written_for == key(one):
                return KeptLibrary(codegen, state)
        except Exception:  # it is no longer as it was
            pass
    module, library = nrtdynmod.create_nrt_module(context)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    keep(name(target), pickle.dumps((key(target), to_keep(library))))
    return library
