"""Import boundaries: what loads at the point of use stays unloaded, and layers know only those below them."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

import streamjoin

ROOT = Path(streamjoin.__file__).parent
HEAVY = ("numba", "sqlglot", "pandas", "polars", "pyspark", "narwhals", "pyopencl", "duckdb", "llvmlite")


def loaded_by(statement: str) -> set[str]:
    """The top-level modules in memory after a statement in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint(' '.join({{m.partition('.')[0] for m in sys.modules}}))"
    env_path = str(ROOT.parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {env_path!r})\n" + code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_the_package_loads_nothing_heavy() -> None:
    assert not loaded_by("import streamjoin") & set(HEAVY)


def test_the_command_line_loads_nothing_heavy() -> None:
    assert not loaded_by("import streamjoin.cli") & set(HEAVY)


def test_the_import_is_quick() -> None:
    """A generous bound: the target is half a second, and a busy machine should not fail the suite."""
    loaded_by("import streamjoin")
    start = time.perf_counter()
    loaded_by("import streamjoin")
    assert time.perf_counter() - start < 2.5


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path, *, everywhere: bool) -> set[str]:
    """Absolute names of what a file imports: at module level only, or inside functions too."""
    tree = ast.parse(path.read_text())
    package = ["streamjoin", *path.relative_to(ROOT).parts[:-1]]
    out: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                out.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:
                    base = ".".join(
                        [
                            *package[: len(package) - child.level + 1],
                            *([child.module] if child.module else []),
                        ]
                    )
                out.add(base)
                out.update(f"{base}.{alias.name}" for alias in child.names)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not everywhere:
                continue
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                for other in child.orelse:
                    visit(other)
            else:
                visit(child)

    visit(tree)
    return out


def offenders(folder: str, forbidden: tuple[str, ...], *, everywhere: bool) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(folder)
        for name in sorted(imports(path, everywhere=everywhere))
        if any(name == bad or name.startswith(bad + ".") for bad in forbidden)
    ]


def test_there_is_something_to_scan() -> None:
    assert files("core")
    assert files("algorithms")
    assert files("embedded")


def test_core_is_pure() -> None:
    concurrent = ("threading", "multiprocessing", "concurrent", "asyncio", "queue", "_thread")
    devices = ("pyspark", "pyopencl")
    found = offenders("core", (*concurrent, *devices), everywhere=True)
    assert found == ["core/cache.py imports threading"]  # a lock around the kernel cache
    assert not offenders("core", ("sqlglot", "pandas", "polars", "narwhals"), everywhere=False)
    above = tuple(
        f"streamjoin.{layer}" for layer in ("algorithms", "embedded", "spark", "device", "cli", "lab")
    )
    assert not offenders("core", above, everywhere=True)


def test_algorithms_know_no_threads_and_no_engine() -> None:
    above = tuple(f"streamjoin.{layer}" for layer in ("embedded", "spark", "device", "cli", "lab"))
    bad = ("threading", "multiprocessing", "concurrent", "queue", "time", "pyspark", "pyopencl", *above)
    assert not offenders("algorithms", bad, everywhere=True)


@pytest.mark.parametrize(
    ("engine", "others"), [("embedded", ("spark", "device")), ("spark", ("embedded", "device"))]
)
def test_engines_do_not_know_each_other(engine: str, others: tuple[str, ...]) -> None:
    bad = tuple(f"streamjoin.{other}" for other in (*others, "cli", "lab"))
    assert not offenders(engine, bad, everywhere=True)
    assert not offenders("embedded", ("pyspark", "pyopencl"), everywhere=False)


def test_nothing_below_knows_the_command_line() -> None:
    for folder in ("core", "algorithms", "embedded"):
        assert not offenders(folder, ("typer", "rich", "streamjoin.cli"), everywhere=True)


def test_folders_are_a_leaf() -> None:
    known = {name for name in imports(ROOT / "folders.py", everywhere=True) if name.startswith("streamjoin")}
    assert known == {"streamjoin.errors", "streamjoin.errors.FileError"}


def test_predicate_text_is_never_run() -> None:
    """The SQL text of a user is data: no eval or exec outside the code that loads generated kernels."""
    for path in files("core/predicate"):
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        names = {c.func.id for c in calls if isinstance(c.func, ast.Name)}
        assert not names & {"eval", "exec", "compile"}, path.name


def test_every_module_says_what_it_is_for() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        assert ast.get_docstring(ast.parse(path.read_text())), (
            f"{path.relative_to(ROOT)} opens without a sentence"
        )
