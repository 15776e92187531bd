"""Make pages of the site of what lies elsewhere: `mkdocs build` writes it into build/site.

MkDocs calls `on_files` and `on_page_markdown` (see mkdocs.yml): the guides of the root and the examples become pages,
and links out of this folder lead to them, or to a copy of what they name.
"""

from __future__ import annotations

import ast
import pathlib
import posixpath
import re
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The guides of the root, and the pages that they become.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
EXAMPLES = "examples.md"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)((?:#[^)\s]*)?)\)")
GENERATED = {*PAGES.values(), EXAMPLES}


def examples() -> str:
    """Write a page of all examples: what the first line of each says, then its code."""
    text = "# Examples\n\nEach runs as it stands, on a CPU or a GPU.\n"
    for path in sorted((ROOT / "examples").rglob("*.py")):
        source = path.read_text()
        about = (ast.get_docstring(ast.parse(source)) or path.stem).partition("\n")[0]
        text += f"\n## {path.stem.replace('_', ' ').capitalize()}\n\n{about}\n\n"
        text += f'```python title="{path.relative_to(ROOT)}"\n{source}```\n'
    return text


def rewritten(markdown: str, source: str, copied: set[str]) -> str:
    """Let links of a page lead to pages and copies; what has neither, such as a folder, is plain text.

    source: the page, from the root. copied: the files to copy, to which this adds.
    """

    def link(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups()
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in PAGES:
            return f"{mark}[{text}]({PAGES[path]}{anchor})"
        if path.startswith("docs/"):
            return f"{mark}[{text}]({path.removeprefix('docs/')}{anchor})"
        if path.startswith("examples/"):
            return f"{mark}[{text}]({EXAMPLES}#{posixpath.basename(path).removesuffix('.py').replace('_', '-')})"
        if not (ROOT / path).is_file() or path.endswith(".md"):
            return text
        copied.add(path)
        return f"{mark}[{text}](files/{path})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.S | re.M)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def on_files(files: Any, config: Any) -> Any:
    """Add what is not in this folder: MkDocs calls this."""
    from mkdocs.structure.files import File

    copied: set[str] = set()
    for path, page in PAGES.items():
        text = rewritten((ROOT / path).read_text(), path, copied)
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, EXAMPLES, content=examples()))
    for path in sorted((ROOT / "docs").glob("*.md")):
        rewritten(path.read_text(), f"docs/{path.name}", copied)
    for path in sorted(copied):
        files.append(File.generated(config, f"files/{path}", content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page of this folder: MkDocs calls this."""
    return markdown if page.file.src_uri in GENERATED else rewritten(markdown, f"docs/{page.file.src_uri}", set())
