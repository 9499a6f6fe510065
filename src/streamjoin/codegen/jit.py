"""Numba's decorators, with machine code kept in files of our own.

Numba's cache looks only at the file of a function to tell whether its machine code is out of date, though ours call
each other across files; and it unpickles whatever lies in its folder, damaged or not. Here every function and signature
has one file, under a digest of all sources and circumstances that its machine code depends on; see `kernel_files.py`.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache, cached_property, partial
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
from numba.core.caching import NullCache, _Cache
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target as _cpu_target
from numba.core.serialize import dumps as _dumps
from numba.core.types import unliteral as _unliteral
from numba.core.typing.templates import make_concrete_template

from streamjoin.codegen.ahead import Ahead, Kernel
from streamjoin.codegen.cache import GENERATED, ONE_AT_A_TIME, PACKAGE, imports_digest
from streamjoin.codegen.kept_library import rebuilt, reduced
from streamjoin.codegen.kernel_files import Target, keep, read, there
from streamjoin.codegen.notice import Notice
from streamjoin.codegen.parts import PartCompiler, WholeCompiler
from streamjoin.codegen.runtime import initialize
from streamjoin.folders import kept

KEPT_DAYS = 30  # since somebody last used it
FILE = re.compile(r"\w+-[0-9a-f]{32}\.kernel")
WORD_TO_WORD = "int64(int64)"
NOTICE = Notice()
AHEAD = Ahead()

# Numba annotates some of its functions and not others.
dumps: Any = _dumps
unliteral: Any = _unliteral
concrete_template: Any = make_concrete_template
cpu_target: Any = _cpu_target


@cache
def _sweep(folder: str) -> None:
    """Removes what was not used for long: once per process, by one that compiles and so takes its time."""
    kept("kernels").sweep(FILE, KEPT_DAYS)


class KernelFiles(_Cache):
    """The machine code of one function on the disk, a file for each signature. Numba asks it before it compiles."""

    def __init__(self, function: Callable[..., Any], options: str) -> None:
        code = function.__code__
        self._name = function.__name__
        # Read now: the file may be edited while the process runs.
        self._identity = (
            _module_digest(function.__module__),
            function.__qualname__,
            code.co_firstlineno,
            hashlib.sha256(code.co_code).hexdigest(),
            options,
            (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for this signature, or None."""
        initialize(target_context)
        target = target_context.codegen().magic_tuple()
        found = self._read(sig, target, target_context)
        if found is None and AHEAD.missing(self._file(self._key(sig, target)), NOTICE.compiling):
            found = self._read(sig, target, target_context)
        if found is None:
            NOTICE.compiling(self._name)
        return found

    def _read(self, sig: Any, target: Target, target_context: Any) -> Any:
        for one, content in read(target, lambda target: self._file(self._key(sig, target))):
            found = _rebuilt(self._key(sig, one), content, target_context)
            if found is not None:
                return found
        return None

    def kernel(self, sig: Any, compile: Callable[[], Any], module: str) -> Kernel:
        """What a helper needs to know of a signature; `compile` compiles it here."""
        target = cpu_target.target_context.codegen().magic_tuple()

        def name(target: Target) -> str:
            return self._file(self._key(sig, target))

        return Kernel(name(target), module, self._name, lambda: there(target, name), compile)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps what was just compiled."""
        if data.library.has_dynamic_globals or any(not part.can_cache for part in data.lifted):
            return
        key = self._key(sig, data.codegen.magic_tuple())
        content = dumps((key, _outside(data.library), reduced(data)))
        keep(self._file(key), content)
        _sweep(kept("kernels").path)

    def _key(self, sig: Any, target: tuple[str, ...]) -> tuple[Any, ...]:
        return (sig, target, self._identity)

    def _file(self, key: tuple[Any, ...]) -> str:
        return f"{self._name}-{hashlib.sha256(str(key).encode()).hexdigest()[:32]}.kernel"

    @property
    def cache_path(self) -> str:
        return kept("kernels").path

    def enable(self) -> None:
        pass

    def disable(self) -> None:
        pass

    def flush(self) -> None:
        pass


def _outside(library: Any) -> tuple[str, ...]:
    """The symbols that machine code asks the process for."""
    module = library._final_module
    everything = (*module.functions, *module.global_variables)
    return tuple(one.name for one in everything if one.is_declaration and not one.name.startswith("llvm."))


def _rebuilt(key: tuple[Any, ...], content: memoryview, target_context: Any) -> Any:
    try:
        written_for, symbols, compiled = pickle.loads(content)
        if written_for != key:  # signatures are told apart by their texts only as far as these go
            return None
        if not all(map(llvm.address_of_symbol, symbols)):
            target_context.refresh()  # all of Numba, which takes longer than a small join
        return rebuilt(target_context, *compiled)
    except Exception:  # it refers to something that is no longer as it was
        return None


def _files(function: Callable[..., Any], options: str) -> Any:
    """Where the machine code of a function is kept: nowhere unless other processes find the function by its name."""
    ours = function.__module__.startswith((f"{PACKAGE}.", GENERATED))
    module = sys.modules.get(function.__module__)
    if not ours or module is None or vars(module) is not function.__globals__ or function.__closure__:
        return NullCache()
    return KernelFiles(function, options)


@cache
def _module_digest(name: str) -> str:
    """A digest of a module's text and of all that it imports; a generated module is named by such a digest."""
    return name if name.startswith(GENERATED) else f"{name} {imports_digest(f'import {name}')}"


def _exact_call(dispatcher: Any, args: Any, kws: Any) -> Any:
    """How compiled code calls a function: the one copy that is compiled for just these types.

    Constants count as what they are, integers and so on: else there would be a copy for each of them, with the same
    machine code. And copies for other types are left out of sight: one that takes the base of a record would do, too,
    but Numba warns of it.
    """
    plain = tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()}
    found: Any = Dispatcher.get_call_template(dispatcher, *plain)
    exact = dispatcher.overloads.get(tuple(found[2]))  # the types, defaults included
    if exact is None:  # it calls itself, and is being compiled
        return found
    return concrete_template(found[0].__name__, dispatcher.py_func.__name__, [exact.signature]), *found[1:]


def _nothing() -> None:
    """Instead of looking for extensions of Numba in all installed packages before machine code is loaded.

    The types of our arguments are Numba's own; before anything is compiled, Numba looks for extensions again.
    """


def njit(
    function: Callable[..., Any] | None = None,
    *,
    cache: bool = False,
    compiler: type[Compiler] = WholeCompiler,
    usual: Callable[[], tuple[Any, ...]] | None = None,
    **options: Any,
) -> Any:
    """`numba.njit`; with `cache`, the machine code is kept for the next process.

    `usual` returns arguments of the types that nearly all calls have, for `expect`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        made = numba.njit(pipeline_class=compiler, **options)(function)
        made.get_call_template = partial(_exact_call, made)
        if cache:
            made._cache = _files(function, str(sorted(options.items())))
            made._compilation_chain_init_hook = _nothing
        made.usual = usual
        return made

    return decorate if function is None else decorate(function)


def inner(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A part of other kernels, never called from Python nor by address: that makes it quicker to compile."""
    decorate = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, compiler=PartCompiler, **options)
    return decorate if function is None else decorate(function)


class OnDemand:
    """A function from word to word, compiled when somebody asks for it: called from Python, or by its address.

    An exception reaches a caller in Python. One by address gets 0, and the exception stands on standard error.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function: Any = numba.njit(nogil=True, pipeline_class=WholeCompiler, **options)(function)
        self._function._cache = _files(function, f"by address {sorted(options.items())}")

    @cached_property
    def _compiled(self) -> Any:
        return ONE_AT_A_TIME.run(self._compile)

    def _compile(self) -> Any:
        self._function.compile(WORD_TO_WORD)
        (compiled,) = self._function.overloads.values()
        return compiled

    @property
    def kernel(self) -> Kernel | None:
        """What is to be compiled; None if its machine code is not kept."""
        files = self._function._cache
        if not isinstance(files, KernelFiles) or "_compiled" in vars(self):
            return None
        return files.kernel(WORD_TO_WORD, lambda: self._compiled, self._function.py_func.__module__)

    @property
    def address(self) -> int:
        compiled = self._compiled
        return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))

    @property
    def compiled(self) -> Callable[[int], int]:
        """The function itself, compiled: quicker to call than this object."""
        self._compiled  # noqa: B018  one at a time
        function: Callable[[int], int] = self._function
        return function

    def __call__(self, word: int) -> int:
        return int(self.compiled(word))


def on_demand(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Makes a function from word to word callable by address, for other compiled code; see `intrinsics.call`."""

    def decorate(function: Callable[..., Any]) -> OnDemand:
        return OnDemand(function, options)

    return decorate if function is None else decorate(function)


def expect(functions: Iterable[Any]) -> None:
    """Names functions that are going to be called, in order, but what takes long to compile at the end: see `ahead`.

    Each is called by address, or has `usual` arguments. Nobody looks for their files where nothing is missing.
    """
    AHEAD.expect(kernel for function in functions if (kernel := _kernel(function)) is not None)


def _kernel(function: Any) -> Kernel | None:
    """What is to be compiled; None if its machine code is not kept, or is known already."""
    if isinstance(function, OnDemand):
        return function.kernel
    files, types = function._cache, _usual_types(function)
    if not isinstance(files, KernelFiles) or types in function.overloads:
        return None
    return files.kernel(types, lambda: function.compile(types), function.py_func.__module__)


def compile_ahead(function: Any) -> None:
    """Compiles a function for the signature that a call is expected to have."""
    if isinstance(function, OnDemand):
        function.address  # noqa: B018
    else:
        function.compile(_usual_types(function))


def _usual_types(function: Any) -> tuple[Any, ...]:
    return tuple(map(numba.typeof, function.usual()))
