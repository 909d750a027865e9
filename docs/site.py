"""What the documentation site adds to the Markdown pages (a hook of mkdocs; `make docs` runs it).

- Pages that are made when the site is built: commands, from the command itself; contributing and changelog, from the
  files of these names.
- Links from pages to folders, and to files outside docs/, lead to the repository's page; one to what is not there ends
  the build.
- Pictures get their width and height, so that text does not move when they arrive; icons get names.
"""

import logging
import posixpath
import re
import struct
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/pfels/pfels"
INCLUDED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
ALONE = ("index.md", "glossary.md")  # no other page in their section, so no list of them beside the text
LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?(?=\))")
IMAGE = re.compile(r'<img\b(?![^>]*\bwidth=)[^>]*\bsrc="([^"]+\.png)"[^>]*?(?=\s*/?>)')
ICON = re.compile(
    r'(<label class="(?:md-header__button md-icon|md-search__icon md-icon|md-nav__link |md-overlay|md-search__overlay)"'
    r'(?![^>]*(?:title|aria-label)=)[^>]* for="([^"]+)"[^>]*)>'
)
ICONS = {"__drawer": "Menu", "__search": "Search"}
log = logging.getLogger("mkdocs.hooks.site")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    from mkdocs.structure.files import File

    sys.path.insert(0, str(Path(__file__).parent))
    try:
        from make_commands import page
    finally:
        del sys.path[0]
    made = {"reference/commands.md": page()}
    for name, source in INCLUDED.items():
        made[name] = _from_root((ROOT / source).read_text("utf-8"))
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links out of docs/ lead to the repository."""
    if page.file.src_uri in ALONE:
        page.meta["hide"] = ["navigation"]
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, found[1]))
        if target.startswith("docs/") and not (ROOT / target).is_dir():
            return found[0]
        return _elsewhere(target, found[2] or "", folder, page.file.src_uri)

    return LINK.sub(replaced, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Give every picture its size."""
    folder = posixpath.dirname(page.file.dest_uri)

    def sized(found: re.Match[str]) -> str:
        path = ROOT / "docs" / posixpath.normpath(posixpath.join(folder, found[1]))
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        return f'{found[0]} width="{width}" height="{height}" loading="lazy"'

    return IMAGE.sub(sized, html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Give the icons that open menus a name for those who do not see them."""
    return ICON.sub(lambda found: f'{found[1]} aria-label="{ICONS.get(found[2], "Section")}">', output)


def on_post_build(config: Any) -> None:
    """Leave out the theme's page for addresses that are not there: it looks for its files at the root of a server."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)


def _elsewhere(target: str, anchor: str, folder: str, page: str) -> str:
    """The address of a file of the repository that is no page, or of the page that was made from it."""
    for name, source in INCLUDED.items():
        if target == source:
            return posixpath.relpath(name, folder or ".") + anchor
    path = ROOT / target
    if not path.exists():
        log.warning("%s: links to %s, which is not there", page, target)
    return f"{REPOSITORY}/{'tree' if path.is_dir() else 'blob'}/main/{target}{anchor}"


def _from_root(text: str) -> str:
    """A page of the repository's root as if it were in docs/."""

    def moved(found: re.Match[str]) -> str:
        target = found[1].removeprefix("docs/") if found[1].startswith("docs/") else f"../{found[1]}"
        return target + (found[2] or "")

    return LINK.sub(moved, text)
