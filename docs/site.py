"""Gathers the pages of the site in build/docs, writes its reference from the code, and checks every link.

`python docs/site.py` does that; `make docs` then builds the site with Zensical.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import streamjoin as sj
import streamjoin.metrics
from streamjoin.options import DECLARED
from streamjoin.spark.settings import PARTITIONS, recommended, required

ROOT = Path(__file__).resolve().parent.parent
DOCS, TARGET = ROOT / "docs", ROOT / "build" / "docs"
BESIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")  # pages of the project's root
SHORT = 80  # characters of parameters in a line
FOLDERS = ("algorithms", "decisions")  # whose pages are listed on a page of their own
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"(?m)^#+ +(.+)$")


def pages() -> dict[str, str]:
    """Every page by its place on the site."""
    found = {str(path.relative_to(DOCS)): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    listed = found.pop("README.md")  # the list of pages, for readers of the folder; the site has a menu
    found["contents.md"] = listed
    for name in BESIDE:
        found["index.md" if name == "README.md" else name] = (ROOT / name).read_text(encoding="utf-8")
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        found[f"examples/{path.stem}.md"] = f"# {path.name}\n\n```python\n{text}```\n"
    shown = "\n".join(f"- [{path.name}]({path.stem}.md)" for path in sorted((ROOT / "examples").glob("*.py")))
    found["examples/index.md"] = f"# Examples\n\n{shown}\n"
    for folder in FOLDERS:
        inside = [Path(name) for name in found if name.startswith(f"{folder}/")]
        shown = "\n".join(f"- [{path.stem.replace('-', ' ')}]({path.name})" for path in inside)
        found[f"{folder}/index.md"] = f"# {folder.capitalize()}\n\n{shown}\n"
    found["reference/options.md"] = options()
    found["reference/python.md"] = python()
    found["reference/metrics.md"] = metrics()
    found["reference/settings.md"] = settings()
    return {name: moved(name, text) for name, text in found.items()}


def moved(name: str, text: str) -> str:
    """A page whose links lead to where the pages are on the site."""
    if name == "index.md" or name in BESIDE:
        for old, new in (("docs/README.md", "contents.md"), ("docs/decisions)", "decisions/index.md)"), ("docs/", "")):
            text = text.replace(f"]({old}", f"]({new}")
        return text.replace("](examples)", "](examples/index.md)")
    depth = "../" * name.count("/")
    for page in BESIDE:
        target = "index.md" if page == "README.md" else page
        text = text.replace(f"]({depth}../{page}", f"]({depth}{target}")
    text = text.replace(f"]({depth}../examples)", f"]({depth}examples/index.md)")
    for folder in FOLDERS:
        text = re.sub(rf"\]\({re.escape(depth)}{folder}/?\)", f"]({depth}{folder}/index.md)", text)
    text = text.replace(f"]({depth}../examples/", f"]({depth}examples/")
    text = re.sub(rf"\]\({re.escape(depth)}examples/(\w+)\.py\)", rf"]({depth}examples/\1.md)", text)
    return re.sub(r"(\]\([^)]*)README\.md", r"\1contents.md", text)


def options() -> str:
    """The options of a join, from their declarations."""
    lines = ["# Options", "", "Keywords of `join`, `Join`, `explain` and `streamjoin.spark.join`.", ""]
    lines += ["| option | meaning | values | for |", "| --- | --- | --- | --- |"]
    for name, field in DECLARED.items():
        known = field.metadata
        values = ", ".join(f"`{value}`" for value in known["values"]) or known["takes"]
        cells = (f"`{name}`", known["doc"], values, ", ".join(known["engines"]))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def python() -> str:
    """What `import streamjoin` offers, from its docstrings; classes with their methods."""
    parts = ["# Python", ""]
    for name in sj.__all__:
        value = getattr(sj, name)
        text = inspect.getdoc(value)
        if name.startswith("_") or text is None or not callable(value):
            continue
        parts += [f"## {name}", "", f"```text\n{name}{_signature(value)}\n\n{text}\n```", ""]
        if inspect.isclass(value) and not issubclass(value, BaseException):
            bases = [base for base in reversed(value.__mro__) if base.__module__.startswith("streamjoin")]
            for member, found in {k: v for base in bases for k, v in vars(base).items()}.items():
                known = inspect.isfunction(found) or isinstance(found, property)
                if known and not member.startswith("_") and found.__doc__:
                    shown = f"{name}.{member}{_signature(found)}\n\n{inspect.getdoc(found)}"
                    parts += [f"### {name}.{member}", "", f"```text\n{shown}\n```", ""]
    return "\n".join(parts)


def _signature(value: object) -> str:
    """Its parameters; one a line if they are many."""
    if not inspect.isfunction(value):
        return ""
    text = re.sub(r"((?:: |-> ))'([^']*)'", r"\1\2", str(inspect.signature(value)))
    names, _, result = text.rpartition(")")
    lines = re.sub(r", (?![^\[(]*[\])])", ",\n    ", names)  # a comma outside brackets
    return text if len(text) <= SHORT else lines.replace("(", "(\n    ", 1) + f",\n){result}"


def metrics() -> str:
    """Every figure of `stats()` and of /metrics, from their declarations."""
    scopes = (
        ("A live join: `join.stats()`", streamjoin.metrics.JOIN),
        ('A side: `stats()["r"]`', streamjoin.metrics.SIDE),
        ('A worker: `stats()["workers"][k]`', streamjoin.metrics.WORKER),
        ("A Spark driver: `Totals.stats()`", streamjoin.metrics.PIPELINE),
        ('A Spark cell: `Totals.stats()["by_cell"][k]`', streamjoin.metrics.PER_CELL),
    )
    lines = ["# Metrics", "", "How to read them: [Watching a join](../watching.md).", ""]
    for title, figures in scopes:
        lines += [f"## {title}", "", "| name | unit | meaning |", "| --- | --- | --- |"]
        for figure in figures:
            rate = f", `{figure.name}{streamjoin.metrics.PER_SECOND}`" if figure.rate else ""
            lines.append(f"| `{figure.name}`{rate} | {figure.unit} | {figure.help} |")
        lines.append("")
    return "\n".join([*lines, "## Prometheus: `/metrics`", "", streamjoin.metrics.table(), ""])


def settings() -> str:
    """The settings of a Spark session, as `streamjoin.spark.settings` has them."""
    known, needed = recommended(), required()
    lines = ["# Spark settings", "", "[On Spark](../spark.md) shows how to set them.", ""]
    lines += ["| setting | value | |", "| --- | --- | --- |"]
    for name, value in known.items():
        shown = "the number of cores" if name == PARTITIONS else f"`{value}`"
        lines.append(f"| `{name}` | {shown} | {'required' if name in needed else 'recommended'} |")
    return "\n".join([*lines, "", inspect.getdoc(recommended) or "", ""])


def broken(found: dict[str, str]) -> Iterator[str]:
    """Links of pages that lead nowhere; those to other sites are not followed."""
    for name, text in found.items():
        plain = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", text)
        for match in LINK.finditer(plain):
            link = match[1] or match[2]
            place, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            target = (TARGET / name).parent / place if place else TARGET / name
            page = str(target.resolve().relative_to(TARGET)) if target.resolve().is_relative_to(TARGET) else ""
            if not (page in found or (page and (TARGET / page).is_file())):
                yield f"{name}: {link} leads to no page"
            elif anchor and page in found and anchor not in {_anchor(text) for text in HEADING.findall(found[page])}:
                yield f"{name}: {link} leads to no heading"


def _anchor(heading: str) -> str:
    """The name of a heading in links."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def gather() -> list[str]:
    """Writes all pages and returns what is wrong with their links."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    shutil.copytree(DOCS / "images", TARGET / "images")
    shutil.copy(DOCS / "site.css", TARGET)
    for path in sorted((ROOT / "examples").glob("*.json")):
        (TARGET / "examples").mkdir(exist_ok=True)
        shutil.copy(path, TARGET / "examples")
    found = pages()
    for name, text in found.items():
        (TARGET / name).parent.mkdir(parents=True, exist_ok=True)
        (TARGET / name).write_text(text, encoding="utf-8")
    return sorted(broken(found))


if __name__ == "__main__":
    wrong = gather()
    print("\n".join(wrong) or f"{len(list(TARGET.rglob('*.md')))} pages, all links lead somewhere")
    sys.exit(bool(wrong))
