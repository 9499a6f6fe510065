"""A second process that compiles a part of what is needed: with it, without it, and whatever becomes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamjoin.codegen import ahead

SOURCE = "from streamjoin.codegen.jit import on_demand\n" + "".join(
    f"\n\n@on_demand\ndef f{k}(n):\n    return n + {k}\n" for k in range(5)
)
SCRIPT = f"""
import os, sys, time
import streamjoin.codegen.ahead as ahead
from streamjoin.codegen.cache import load_module
from streamjoin.codegen.jit import AHEAD, NOTICE, expect

ahead.usable_cores = lambda: 2
module = load_module({SOURCE!r})
functions = [getattr(module, "f%d" % k) for k in range(5)]
BEFORE
expect(functions)
assert functions[0](10) == 10  # now a helper begins, with the last one
BETWEEN
assert [f(10) for f in reversed(functions)] == [14, 13, 12, 11, 10]
loaded = sum(sum(f._function.stats.cache_hits.values()) for f in functions)
print(AHEAD._helper is not None, loaded > 0, NOTICE.compiled)
"""


def told(folder: Path, before: str = "", between: str = "") -> list[str]:
    """What a process says of it: was there a helper, did it compile anything, and how many functions were compiled."""
    code = SCRIPT.replace("BEFORE", before).replace("BETWEEN", between)
    env = {**os.environ, "STREAMJOIN_CACHE": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.split()


def test_a_helper_compiles_some_and_each_function_is_compiled_once(tmp_path: Path) -> None:
    assert told(tmp_path) == ["True", "True", "5"]
    assert len(list(tmp_path.glob("kernels/f?-*.kernel"))) == 5
    assert told(tmp_path) == ["False", "True", "0"], "where nothing is missing, nobody helps"


def test_few_missing_functions_are_compiled_here(tmp_path: Path) -> None:
    before = "for f in functions[:4]:\n    f.address"
    assert told(tmp_path / "four", before=before)[0] == "False"
    assert told(tmp_path / "core", before="ahead.usable_cores = lambda: 1") == ["False", "False", "5"]


@pytest.mark.parametrize(
    "helper",
    {
        "ends at once": "pass",
        "answers and has done nothing": "import sys\nfor line in sys.stdin: print(flush=True)",
        "is killed": "import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 9)",
        "writes elsewhere": "import os; os.environ['STREAMJOIN_CACHE'] = '/nowhere'; import json, sys;"
        " sys.path[:] = json.loads(sys.stdin.readline()); from {} import serve; serve()",
    }.values(),
)
def test_whatever_becomes_of_the_helper_everything_is_compiled(helper: str, tmp_path: Path) -> None:
    assert told(tmp_path, before=f"ahead.START = {helper!r}")[:2] == ["True", "False"]
    assert len(list(tmp_path.glob("kernels/f?-*.kernel"))) == 5


def test_a_helper_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    before = "ahead.PATIENCE = 0.1\nahead.START = 'import sys; sys.stdin.read()'"
    assert told(tmp_path, before=before)[:2] == ["True", "False"]


def test_an_interpreter_that_cannot_be_started(tmp_path: Path) -> None:
    assert told(tmp_path, before="sys.executable = '/nowhere/python'")[:2] == ["True", "False"]


def test_a_forked_process_does_not_wait_for_the_helper_of_its_parent(tmp_path: Path) -> None:
    between = "child = os.fork()\nif child:\n    assert os.waitpid(child, 0)[1] == 0"
    out = told(tmp_path, before="ahead.START = 'import sys; sys.stdin.read()'\nahead.PATIENCE = 2", between=between)
    assert len(out) == 6 and out[:2] == ["True", "False"]


def test_a_folder_that_others_may_write_to_gets_no_helper(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    (folder / "kernels").mkdir(parents=True)
    folder.chmod(0o777)
    assert told(folder) == ["False", "False", "5"]


def test_a_helper_ends_with_its_input_even_while_it_compiles(tmp_path: Path) -> None:
    code = ahead.START.format(ahead.__name__)
    env = {**os.environ, "STREAMJOIN_CACHE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        endless = "import time\ntime.sleep(1000)\n"
        print(
            json.dumps(sys.path), json.dumps({"module": "", "text": endless, "name": ""}), sep="\n", file=process.stdin
        )
        process.stdin.close()
        assert process.wait(60) == 0


def test_usual_arguments_are_those_of_joins() -> None:
    """Else the helper would compile what nobody calls."""
    script = """
import pyarrow as pa
import streamjoin as sj
from streamjoin.codegen import jit
from streamjoin.tables import first

rows = pa.table({name: [i * step % 4999 for i in range(4_999)] for name, step in (("t", 1), ("x", 7), ("y", 11))})
expected = []
first.expect = expected.extend
sj.join(rows, rows, on="abs(r.x - s.x) <= 3 AND abs(r.y - s.y) <= 30", within=500, time="t")
usual = [function for function in expected if not isinstance(function, jit.OnDemand)]
assert len(usual) == 6
for function in usual:
    assert list(function.overloads) == [jit._usual_types(function)], function
assert all("_compiled" in vars(function) for function in expected if function not in usual)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
