"""Inner functions: compiled as parts of those that call them, never by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from streamjoin.codegen.cache import load_module
from streamjoin.codegen.parts import PartLibrary

SOURCE = """
from streamjoin.codegen.jit import inner, njit

@inner
def doubled(x):
    return 2 * x

@inner
def checked(x):
    if x > 1000:
        raise ValueError("too large", x)
    return doubled(x) + doubled(x + 1)

@njit(nogil=True{options})
def first(x):
    return checked(x)

@njit(nogil=True{options})
def second(x):
    return first(x) + checked(x)
"""


def module(number: int, options: str = "") -> Any:
    return load_module(f"# {number}{SOURCE.format(options=options)}")


def test_a_part_has_no_machine_code_of_its_own() -> None:
    made = module(0)
    assert made.second(5) == 44
    for function, part in ((made.doubled, True), (made.checked, True), (made.first, False)):
        (compiled,) = function.overloads.values()
        assert isinstance(compiled.library, PartLibrary) == part
        assert (compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0) == part


@pytest.mark.parametrize("options", ["", ", cache=True"])
def test_an_exception_made_at_run_time_inside_a_part_reaches_the_caller(options: str) -> None:
    made = module(1, options)
    for function in (made.first, made.second):
        with pytest.raises(ValueError, match="too large") as caught:
            function(1001)
        assert caught.value.args == ("too large", 1001)


def test_a_part_is_compiled_for_each_of_its_types() -> None:
    made = module(2)
    assert made.first(1) == 6
    assert made.first(1.5) == 8.0
    assert made.second(2) == 20
    assert len(made.doubled.overloads) == 2
