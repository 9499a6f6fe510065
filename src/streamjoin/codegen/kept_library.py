"""Machine code from a file, as a library of Numba's.

Numba keeps a function's code in LLVM's language beside its machine code, for other functions to link, and reads both. A
process that compiles nothing needs the machine code alone, and the names in it: what others link is read when one of
them does.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult as _CompileResult

CompileResult: Any = _CompileResult  # a tuple whose names Numba does not annotate

Kept = tuple[str, bytes, bytes, tuple[str, ...]]  # name, machine code, code to link, names that are defined in it


def to_keep(library: Any) -> Kept:
    """What a `KeptLibrary` is made from in another process."""
    name, _, (machine_code, to_link) = library.serialize_using_object_code()
    module = library._get_module_for_linking()
    everything = (*module.functions, *module.global_variables)
    return name, machine_code, to_link, tuple(one.name for one in everything if not one.is_declaration)


class KeptLibrary(JITCodeLibrary):
    """A library whose machine code is there."""

    _shared_module: Any

    def __init__(self, codegen: Any, kept: Kept) -> None:
        name, machine_code, self._to_link, names = kept
        super().__init__(codegen, name)
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()
        codegen._engine._defined_symbols.update(names)

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = llvm.parse_bitcode(self._to_link)
        return self._shared_module


def reduced(compiled: Any) -> tuple[Any, ...]:
    """A compiled function as what is kept of it; see `rebuilt`."""
    _, *rest = compiled._reduce()
    return to_keep(compiled.library), *rest


def rebuilt(context: Any, kept: Kept, *rest: Any) -> Any:
    """`CompileResult._rebuild` with a `KeptLibrary`."""
    fndesc, env, signature, objectmode, lifted, typeann, reload_init, environments = rest
    for function in reload_init:
        function()
    library = KeptLibrary(context.codegen(), kept)
    made = CompileResult(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=context.get_executable(library, fndesc, env),
        typing_error=None,
        type_annotation=typeann,
        signature=signature,
        objectmode=objectmode,
        lifted=lifted,
        fndesc=fndesc,
        library=library,
        call_helper=None,
        environment=env,
        metadata=None,
        reload_init=reload_init,
        referenced_envs=environments,
    )
    for environment in environments:
        library.codegen.set_env(environment.env_name, environment)
    return made
