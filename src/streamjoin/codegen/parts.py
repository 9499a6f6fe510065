"""Functions that exist only inside of the compiled functions that call them.

Numba optimises every function by itself and makes machine code of it, and does both again inside of each caller. For a
function that only other compiled code calls, the first round is wasted: nobody asks for its address. Here it is
typed and lowered once and waits, in LLVM's language, to be linked into its callers; they are optimised as a whole.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class PartLibrary(JITCodeLibrary):
    """Code to be linked into other libraries, with all that it calls itself. It has no machine code and no address."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    @property
    def codegen(self) -> PartLibrary:
        """What Numba hands the environment to; see `WholeCompiler`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        pass


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps Python from looking for garbage: a compiler makes many objects and little garbage, and takes 7 % longer."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class PartCompiler(Compiler):
    """Makes a `PartLibrary` of a function."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        self.state.library = PartLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


class WholeCompiler(Compiler):
    """Makes machine code of a function and its parts, and gives it their environments: what exceptions are made of."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        with _no_collection():
            made = super().compile_extra(function)
        for environment in made._find_referenced_environments():
            made.library.codegen.set_env(environment.env_name, environment)
        return made
