"""Drivers of OpenCL that compute wrongly, crash or hang: no wrong result, no lost process, and a text that helps."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import streamjoin as sj
from profiles import SOAK
from streamjoin.cli.main import app
from streamjoin.codegen import opencl as translate
from streamjoin.device import devices as choice
from streamjoin.device import known
from streamjoin.device import opencl_text as source
from streamjoin.errors import DeviceError

SCHEMA = pa.schema({"t": pa.int64(), "x": pa.int64()})
device_test = pytest.mark.device
THREE = """
import pyarrow as pa
import streamjoin as sj

schema = pa.schema({"t": pa.int64(), "x": pa.int64()})
join = sj.Join(r=schema, s=schema, on="r.x <= s.x", within=10, time="t", algorithm="hells")
join.push_r({"t": [1, 2, 3], "x": [1, 2, 3]})
join.push_s({"t": [1, 2, 3], "x": [1, 2, 3]})
join.close()
print(sum(batch.num_rows for batch in join.poll()))
"""


def joined(**options: Any) -> sj.Join:
    return sj.Join(r=SCHEMA, s=SCHEMA, on="r.x <= s.x", within=1, time="t", algorithm="hells", **options)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As in the first process on a machine. Returns a folder from which every process started here imports first."""
    monkeypatch.setenv("STREAMJOIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(known, "_told", {})
    monkeypatch.setattr(known, "_tried", [])
    monkeypatch.setattr(known, "_asked", known._asked.__wrapped__)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_no_kernel_has_a_vector_above_256_bits() -> None:
    """PoCL 3.0 passes those one way and expects them another where the processor has AVX-512."""
    bits = {"char": 8, "short": 16, "int": 32, "long": 64, "float": 32, "double": 64}
    text = known._asked(True, True)[2]
    vectors = set(re.findall(rf"(?:\b|_)u?({'|'.join(bits)})(2|3|4|8|16)\b", text))
    assert {("float", "8"), ("int", "8"), ("long", "4"), ("double", "4")} <= vectors
    assert not [(name, lanes) for name, lanes in vectors if bits[name] * int(lanes) > 256]


@device_test
def test_three_rows_in_fresh_processes() -> None:
    """0 results in one process and an abort in the next, on a processor with AVX-512."""
    for _ in range(20 if SOAK else 2):
        done = subprocess.run([sys.executable, "-c", THREE], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr


SIGNS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
MISTAKES = [
    *((translate, "_SIGNS", sign, other) for sign, other in SIGNS.items()),
    (translate, "HELPERS", "mul_hi(a, b) !=", "mul_hi(a, b) =="),
    (translate, "HELPERS", "(1, 2, 4, 8)", "(1, 2, 4, 4)"),
    (translate, "HELPERS_DOUBLE", "convert_long4(", "1L + convert_long4("),
    (source, "_COMPARE", "t <= until[i]", "t < until[i]"),
    (source, "_COMPARE", "place < end", "place <= end"),
    (source, "_ADD", "first + k", "first"),
    (source, "_REPORT", "(uint)here + popcount", "popcount"),
]


@device_test
@pytest.mark.parametrize(("module", "name", "right", "mistaken"), MISTAKES if SOAK else MISTAKES[3::5])
def test_a_wrong_kernel_is_noticed(
    module: Any, name: str, right: str, mistaken: str, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One mistake in the generator, as if the device had made it: all of them show in the answers."""
    if name == "_SIGNS":
        signs = {op: mistaken if sign == right else sign for op, sign in translate._SIGNS.items()}
        monkeypatch.setattr(translate, "_SIGNS", signs)
    else:
        text = getattr(module, name)
        assert text.count(right) == 1
        for user in (translate, source):
            if hasattr(user, name):
                monkeypatch.setattr(user, name, text.replace(right, mistaken))
    assert known.wrong(choice.devices()[0]).startswith("wrong results for ")


@device_test
@pytest.mark.parametrize("side", ["lo", "key"])
def test_boxes_and_keys_count(side: str, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = source.Source._quick
    change = {"lo": ("lo1[", "lo0["), "key": ("== its_key", "!= its_key")}[side]
    monkeypatch.setattr(source.Source, "_quick", lambda self, g: quick(self, g).replace(*change))
    assert "wrong results for r.k = s.k AND" in known.wrong(choice.devices()[0])


@device_test
def test_a_device_that_computes_wrongly_is_refused(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user sees: before any result, the device, what is wrong and what to do."""
    monkeypatch.setitem(translate._SIGNS, ast.LtE, "<")
    for _ in range(2):  # the second join is told the same
        with pytest.raises(DeviceError) as caught:
            joined()
        said = str(caught.value)
        device = choice.devices()[0]
        assert said.startswith(f"cannot join on the OpenCL device {device.name} of {device.platform.name}, which")
        assert "which failed its test: wrong results for r.b <= s.b, r probing; " in said
        assert "pip install intel-opencl-rt intel-cmplr-lib-rt" in said and 'algorithm="grid"' in said
    with pytest.raises(DeviceError, match="failed its test"):
        str(sj.explain(SCHEMA, SCHEMA, on="r.x <= s.x", within=1, time="t", algorithm="hells"))
    assert not list((fresh / "cache").glob("*.passed"))


WRONG = "import ast\nimport streamjoin.codegen.opencl as t\nt._SIGNS[ast.LtE] = '<'\n"
ABORTS = "import os, pyopencl\npyopencl.Program.build = lambda *_, **__: os.abort()\n"
HANGS = "import time, pyopencl\npyopencl.Program.build = lambda *_, **__: time.sleep(60)\n"
ENDS = [
    pytest.param(WRONG, "wrong results for r.b <= s.b, r probing", id="wrong"),
    pytest.param(ABORTS, "it ended the process (SIGABRT)", id="aborts"),
    pytest.param(HANGS, "no answer within 20 s", id="hangs"),
]


@device_test
@pytest.mark.parametrize(("driver", "reason"), ENDS if SOAK else ENDS[:2])
def test_doctor_and_joins_survive_a_bad_device(
    driver: str, reason: str, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fresh / "sitecustomize.py").write_text(driver)
    if driver == HANGS:
        monkeypatch.setattr(known, "PATIENCE", 20)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, "only joins on a device need one"
    (line, remedy) = re.search(r"^(-- +opencl .*)\n(.*)", result.stdout, re.MULTILINE).groups()
    assert f"fails its test and is not used: {reason}" in line
    assert remedy.strip() == choice.REMEDY
    with pytest.raises(DeviceError, match=re.escape(reason)):
        joined()


@device_test
def test_a_driver_that_crashes_when_asked_for_devices(fresh: Path) -> None:
    (fresh / "sitecustomize.py").write_text("import os, pyopencl\npyopencl.get_platforms = os.abort\n")
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "PyOpenCL finds no device: it ended the process (SIGABRT)" in result.stdout


BUILDS = """
import pyopencl as cl
from streamjoin.device.devices import devices

cl.Program(cl.Context(devices()[:1]), "kernel void nothing() {}").build()
print(devices()[0].platform.name)
"""


@device_test
def test_machine_code_of_pocl_lies_in_our_folder(tmp_path: Path) -> None:
    """Not in /tmp/pocl, where it is looked for in services that have no HOME."""
    without = ("HOME", "XDG_CACHE_HOME", "POCL_CACHE_DIR")
    env = {name: value for name, value in os.environ.items() if name not in without}
    env |= {"STREAMJOIN_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", BUILDS], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("Portable"):
        assert list((tmp_path / "cache" / "pocl").iterdir())
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


@device_test
def test_nothing_of_the_working_directory_is_imported(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh / "here").mkdir()
    (fresh / "here" / "json.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(fresh / "here")
    assert known.apart(0) == ""


@device_test
def test_the_process_of_its_own_is_needed_once(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that passed is tried in the process alone from then on, until driver, code or processor change."""
    asked: list[int] = []

    def apart(*indices: int) -> str:
        asked.append(1)
        return ""

    monkeypatch.setattr(known, "apart", apart)
    for _ in range(2):
        monkeypatch.setattr(known, "_told", {})
        monkeypatch.setattr(known, "_tried", [])
        joined().close()
    assert asked == [1]
    monkeypatch.setattr(known, "_told", {})
    monkeypatch.setattr(known, "_tried", [])
    monkeypatch.setattr(known, "_processor", lambda: "another one")
    joined().close()
    assert asked == [1, 1]


@device_test
def test_a_device_that_fails_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    real = choice.devices()[0]
    bad = SimpleNamespace(name="Bad", type=real.type, platform=SimpleNamespace(name="Worse"))
    monkeypatch.setattr(choice, "devices", lambda: [bad, real])
    monkeypatch.setattr(known, "why_unfit", lambda index, device: "no good" if device is bad else "")
    with pytest.warns(RuntimeWarning, match="passed over the OpenCL device Bad of Worse.*failed its test: no good"):
        assert choice.choose("cpu") is real
    assert choice.choose(1) is real
    with pytest.raises(DeviceError, match="Bad of Worse, which failed its test: no good; pip install"):
        choice.choose(0)
    monkeypatch.setattr(known, "why_unfit", lambda index, device: "no good")
    with pytest.raises(DeviceError, match=f"(Bad.*{re.escape(real.name)}|{re.escape(real.name)}.*Bad)"):
        choice.choose(None)


CRASHING = """
import os
import pytest

pytestmark = pytest.mark.device

def test_before(): pass
def test_crash(): os.abort()
def test_after(): pass
def test_wrong(): assert 1 == 2
def test_slow():
    import time
    time.sleep(60)
def test_last(): pass
"""


@device_test
def test_a_crash_is_one_failed_test(tmp_path: Path) -> None:
    """Of the mechanism that runs device tests, this one among them, in a process of their own."""
    (tmp_path / "test_crashing.py").write_text(CRASHING)
    (tmp_path / "conftest.py").write_text(
        "import apart\napart.PATIENCE = 4\napart._no_device = lambda: ''\n"
        "def pytest_configure(config): apart.set_up(config)\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run([*command, str(tmp_path)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "3 failed, 3 passed" in done.stdout, done.stdout
    assert "the process of this test ended with -6" in done.stdout
    assert "the process of this test took longer than 4 s" in done.stdout
    assert "assert 1 == 2" in done.stdout


@device_test
def test_without_a_good_device_tests_are_skipped_by_name(tmp_path: Path) -> None:
    (tmp_path / "test_crashing.py").write_text(CRASHING)
    (tmp_path / "conftest.py").write_text(
        "import apart\nimport streamjoin.device.known as known\nknown.why_unfit = lambda *_: 'no good'\n"
        "def pytest_configure(config): apart.set_up(config)\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "pytest", "-rs", "-n", "0", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run([*command, str(tmp_path)], env=env, capture_output=True, text=True, timeout=300)
    assert "6 skipped" in done.stdout, done.stdout
    assert "which failed its test: no good" in done.stdout


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """A loader that notes the entries it would read, and an environment with Intel's wheel and a system driver."""
    seen: dict[str, str] = {}

    def get_platforms() -> list[Any]:
        folder = os.environ.get("OCL_ICD_VENDORS")
        seen.update({path.name: path.read_text() for path in Path(folder).iterdir()} if folder else {})
        return []

    for name in choice.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "vendors").mkdir()
    (tmp_path / "vendors" / "gpu.icd").write_text("libgpu.so\n")
    info = tmp_path / "site" / "intel_opencl_rt-1.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libintelocl.so").touch()
    (info / "METADATA").write_text("Name: intel-opencl-rt\nVersion: 1\n")
    (info / "RECORD").write_text("../lib/libintelocl.so,,\n../lib/libintelocl.so.2026,,\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(choice, "VENDORS", tmp_path / "vendors")
    monkeypatch.setattr(choice, "opencl", lambda: SimpleNamespace(get_platforms=get_platforms))
    monkeypatch.setattr(choice, "_platforms", choice._platforms.__wrapped__)
    return seen


def test_intels_runtime_is_found_beside_the_others(loader: dict[str, str], tmp_path: Path) -> None:
    assert choice._platforms() == []
    library = (tmp_path / "lib" / "libintelocl.so").resolve()
    assert loader == {"gpu.icd": "libgpu.so\n", "streamjoin-intel.icd": f"{library}\n"}
    assert "OCL_ICD_VENDORS" not in os.environ


def test_a_folder_of_drivers_that_somebody_chose_stays(
    loader: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "vendors"))
    choice._platforms()
    assert loader == {"gpu.icd": "libgpu.so\n"}
    assert os.environ["OCL_ICD_VENDORS"] == str(tmp_path / "vendors")
