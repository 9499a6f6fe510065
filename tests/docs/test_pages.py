"""The documentation: its Python runs, its links lead somewhere, and the site's menu has every page."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import streamjoin as sj

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(?ms)(?<!<!-- a sketch -->\n)(?<!<!-- on Spark -->\n)^```python\n(.*?)^```")
ON_SPARK = re.compile(r"(?ms)(?<=<!-- on Spark -->\n)^```python\n(.*?)^```")
FILES = ("trades", "quotes", "events", "readings", "pairs", "found", "checkpoint")  # of blocks on Spark
ELSEWHERE = {"testing.md"}  # tests/testing runs it
PAGES = sorted(
    str(path.relative_to(DOCS))
    for path in DOCS.rglob("*.md")
    if path.name not in ELSEWHERE and BLOCK.search(path.read_text(encoding="utf-8"))
)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_of_docs", DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return script("site")


def run(page: Path, blocks: re.Pattern[str] = BLOCK, folder: str = "", **given: Any) -> dict[str, Any]:
    """Runs the blocks of a page one after the other, as a reader would, who has these names and files in a folder.

    Returns all names.
    """
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": page.stem, **given}
    for block in blocks.finditer(text):
        line = text[: block.start(1)].count("\n")
        code = re.sub(rf'"({"|".join(FILES)})"', rf'"{folder}/\1"', block[1]) if folder else block[1]
        exec(compile("\n" * line + code, str(page), "exec"), names)
    return names


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str) -> None:
    run(DOCS / page)


def test_the_code_of_the_readme_runs() -> None:
    trades = pa.table({"ts": pa.array([1], pa.timestamp("s")), "price": [10.0], "qty": [1]})
    quotes = pa.table({"ts": pa.array([2], pa.timestamp("s")), "bid": [9.98], "ask": [10.1], "size": [5]})
    run(ROOT / "README.md", trades=trades, quotes=quotes)


@pytest.mark.spark
@pytest.mark.parametrize("page", ["start.md", "spark.md", "which-join.md", "watching.md"])
def test_the_code_on_spark_runs(page: str, spark: Any, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).mkdir()
    names: dict[str, Any] = {}
    try:
        names = run(DOCS / page, ON_SPARK, str(tmp_path), spark=spark, sj=sj)
        for query in spark.streams.active:
            query.processAllAvailable()
    finally:
        for query in spark.streams.active:
            query.stop()
        if "listener" in names:
            spark.streams.removeListener(names["listener"])


def test_links_lead_somewhere(site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "TARGET", tmp_path / "docs")
    assert site.gather() == []
    page = tmp_path / "docs" / "start.md"
    wrong = {"start.md": page.read_text(encoding="utf-8") + "[a](nowhere.md) [b](start.md#nothing) [c](#next)"}
    assert [text.split(" leads")[0] for text in site.broken(wrong) if "nowhere" in text or "start.md#" in text] == [
        "start.md: nowhere.md",
        "start.md: start.md#nothing",
    ]


def test_the_menu_has_every_page(site: ModuleType) -> None:
    menu = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    listed = set(re.findall(r'"([\w/.-]+\.md)"', menu))
    found = set(site.pages())
    assert listed <= found
    inside = {name for name in found if name.split("/")[0] in ("decisions", "algorithms", "examples")}
    assert found - inside - listed == {"contents.md"}


def test_the_list_of_pages_is_complete() -> None:
    listed = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if not page.startswith("decisions/") and f"]({page})" not in listed] == []


def test_the_reference_is_made_from_the_code(site: ModuleType) -> None:
    found = site.pages()
    for name in (
        "join",
        "Join",
        "Join.push_r",
        "Join.results",
        "Join.to_arrow",
        "Join.schema",
        "Join.failure",
        "watch",
        "explain",
    ):
        assert f"# {name}\n" in found["reference/python.md"], name
    assert "layout: tuple[int, int] | str = 'auto',\n" in found["reference/python.md"]
    assert "`streamjoin_join_results_pairs_total`" in found["reference/metrics.md"]
    assert "| `queue_depth` | messages |" in found["reference/metrics.md"]
    assert "stateStore.providerClass` |" in found["reference/settings.md"]
    assert "| `within` |" in found["reference/options.md"]


def test_pictures_are_as_their_script_draws_them() -> None:
    drawn = dict(script("pictures").drawings())
    assert set(drawn) == set((DOCS / "images").glob("*.svg"))
    for path, text in drawn.items():
        assert path.read_text(encoding="utf-8") == text, f"run python docs/pictures.py: {path.name}"
        root = ElementTree.fromstring(text)
        title, says = (root.find(f"{{http://www.w3.org/2000/svg}}{name}") for name in ("title", "desc"))
        assert title is not None and title.text and says is not None and says.text


def test_every_kind_of_join_has_a_picture_and_an_example() -> None:
    _, *sections = (DOCS / "which-join.md").read_text(encoding="utf-8").split("\n## ")
    assert len(sections) == 7
    for section in sections:
        assert re.search(r"!\[[^\]]+\]\(images/join-\w+\.svg\)", section) and BLOCK.search(section), section[:30]
