"""A hook of mkdocs: the pages of the site that stand outside of ``docs/``, and links between the two.

The README is the first page; the changelog, how to contribute and the examples have pages, too. A link to a file of the repository
that is no page becomes its text. A link to a file that is not there is an error.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{f"examples/{path.name}": f"examples/{path.stem}.md" for path in EXAMPLES},
}
"""Each file of the repository that is a page, and where it stands on the site."""

_SOURCES = {page: source for source, page in PAGES.items()}
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
_BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source.endswith(".py"):
            text = f"# {Path(source).name}\n\n```python\n{text}```\n"
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have the links of a page point to pages of the site."""
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def relinked(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["target"]))
        on_site = PAGES.get(target, target.removeprefix("docs/"))
        if on_site != target:
            relative = posixpath.relpath(on_site, posixpath.dirname(page.file.src_uri))
            return f"{match['picture']}[{match['text']}]({relative}{match['anchor'] or ''})"
        if not (ROOT / target).exists():
            raise PluginError(f"{source} links to {match['target']}, which is not there")
        return match["text"]

    parts = _BLOCK.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(relinked, part) for part in parts)
