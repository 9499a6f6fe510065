"""Import boundaries: what loads at the point of use stays unloaded, and layers know only those below them."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import streamjoin

ROOT = Path(streamjoin.__file__).parent
HEAVY = ("numba", "sqlglot", "pandas", "polars", "pyspark", "narwhals", "pyopencl", "duckdb", "llvmlite", "amaranth")


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


# From below to above; rooms on one line do not know each other, but for `cli`, which starts what stands beside it.
FLOORS = [
    ("predicate",),
    ("codegen",),
    ("windows",),
    ("access",),
    ("algorithms",),
    ("words",),
    ("kinds",),
    ("options",),
    ("keywords",),
    ("plan",),
    ("intake",),
    ("results",),
    ("engine",),
    ("live", "threads", "device", "circuit", "tables", "spark"),
    ("api",),
    ("testing",),
    ("monitor",),
    ("bench", "warm"),
    ("lab",),
    ("cli",),
]
FLOOR = {room: k for k, rooms in enumerate(FLOORS) for room in rooms}
LEAVES = {"__init__", "__main__", "errors", "exits", "folders", "formats", "interrupts", "java"}
LEAVES |= {"machine", "metrics", "papers"}
COMPILED = ("predicate", "codegen", "windows", "access", "algorithms", "plan", "intake", "results")


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_file_stands_in_a_room() -> None:
    rooms = {room(path) for path in ROOT.rglob("*.py")}
    assert rooms <= FLOOR.keys() | LEAVES
    assert FLOOR.keys() <= rooms


def test_rooms_know_only_those_below() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        mine = room(path)
        for name in sorted(imports(path, everywhere=True)):
            other = name.split(".")[1] if name.startswith("streamjoin.") else mine
            if other == mine or other in LEAVES or other not in FLOOR:
                continue
            if mine in LEAVES - {"__init__", "__main__"} or (mine in FLOOR and FLOOR[other] >= FLOOR[mine]):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_what_is_below_the_engines_is_pure() -> None:
    concurrent = ("threading", "multiprocessing", "concurrent", "asyncio", "queue", "_thread")
    found = [name for folder in COMPILED for name in offenders(folder, concurrent, everywhere=True)]
    assert not found
    for folder in COMPILED:
        assert not offenders(folder, ("pyspark", "pyopencl", "typer", "rich"), everywhere=True)
        assert not offenders(folder, ("sqlglot", "pandas", "polars", "narwhals"), everywhere=False)


def test_algorithms_do_not_ask_for_the_time() -> None:
    assert not offenders("algorithms", ("time", "queue"), everywhere=True)


def test_engines_load_their_libraries_at_the_point_of_use() -> None:
    for folder in ("live", "threads", "tables"):
        assert not offenders(folder, ("pyspark", "pyopencl"), everywhere=False)


def test_predicate_text_is_never_run() -> None:
    """The SQL text of a user is data: no eval or exec outside the code that loads generated kernels."""
    for path in files("predicate"):
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        names = {c.func.id for c in calls if isinstance(c.func, ast.Name)}
        assert not names & {"eval", "exec", "compile"}, path.name


def test_folders_are_a_leaf() -> None:
    known = {name for name in imports(ROOT / "folders.py", everywhere=True) if name.startswith("streamjoin")}
    assert known == {"streamjoin.errors", "streamjoin.errors.FileError"}


def test_every_module_says_what_it_is_for() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path.relative_to(ROOT)} opens without a sentence"


def test_test_files_do_not_know_each_other() -> None:
    """What several need stands in support/."""
    tests = Path(__file__).parent
    for path in sorted(tests.rglob("*.py")):
        assert path.name.startswith("test_") or path.name == "conftest.py" or path.parent.name == "support", path
        tree = ast.parse(path.read_text())
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not [name for name in names if name.startswith("test_")], path
