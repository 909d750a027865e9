"""The documentation site, opened from the disk: links, pictures, widths, colours, search; nothing from elsewhere.

`make docs` builds it; `make test-browser` does that first. Every page is opened twice, at 1280 pixels in light colours
and at 390 in dark ones; the first pages of the sections also the other way round.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.conftest import prefer

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
FEW = ["index.html", "tutorials/first-run.html", "settings.html", "reference/commands.html", "reference/api.html"]
CONTRAST = Path(__file__).with_name("contrast.js").read_text("utf-8")
WIDE, NARROW = (1280, "light"), (390, "dark")
EVERYWHERE = [(page, *view) for page in PAGES for view in (WIDE, NARROW)]
OTHERWISE = [(page, *view) for page in FEW for view in ((1280, "dark"), (390, "light"))]


class Page(HTMLParser):
    """The names, links and pictures of one page."""

    def __init__(self, path: Path):
        super().__init__()
        self.names = {"", "__top"}
        self.links = list[str]()
        self.images = list[dict[str, str | None]]()
        self.scripts = list[str]()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = dict(attributes)
        self.names |= {value for value in (known.get("id"), known.get("name")) if value}
        if tag == "a" and known.get("href"):
            self.links.append(str(known["href"]))
        if tag == "img":
            self.images.append(known)
        if tag in ("script", "link") and (known.get("src") or known.get("href")):
            self.scripts.append(str(known.get("src") or known.get("href")))


@pytest.fixture(scope="module")
def parsed() -> dict[str, Page]:
    assert PAGES, "the site is not built: make docs"
    return {page: Page(SITE / page) for page in PAGES}


def test_every_page_of_the_docs_is_there():
    missing = [page for page in (ROOT / "docs").rglob("*.md") if not _built(page).exists()]
    assert PAGES, "the site is not built: make docs"
    assert missing == []
    assert {"contributing.html", "changelog.html", "reference/commands.html"} <= set(PAGES)


def test_every_link_within_the_site_leads_to_a_file_and_a_name_in_it(parsed: dict[str, Page]):
    broken, followed = list[str](), 0
    for page, content in parsed.items():
        for link in content.links:
            address, name = urldefrag(link)
            if re.match(r"[a-z]+:", address):
                continue
            target = (SITE / page).parent / unquote(address) if address else SITE / page
            target = target / "index.html" if target.is_dir() else target.resolve()
            key = str(target.relative_to(SITE)) if target.is_relative_to(SITE) else ""
            followed += 1
            if not target.exists() or (key in parsed and unquote(name) not in parsed[key].names):
                broken.append(f"{page}: {link}")
    assert broken == []
    assert followed > 20 * len(PAGES)


def test_links_to_the_repository_lead_to_files_that_are_in_it(parsed: dict[str, Page]):
    links = {link for page in parsed.values() for link in page.links if "github.com/pfels/pfels/" in link}
    inside = {urldefrag(link)[0].split("/main/", 1)[1] for link in links if "/main/" in link}
    assert len(inside) >= 4
    assert [path for path in inside if not (ROOT / path).exists()] == []


def test_every_picture_has_words_for_those_who_do_not_see_it_and_a_size(parsed: dict[str, Page]):
    pictures = [(page, image) for page, content in parsed.items() for image in content.images]
    assert len(pictures) > 15
    for page, image in pictures:
        logo = "mark.svg" in str(image["src"])
        assert image.get("alt"), (page, image)
        assert logo or (str(image.get("width")).isdecimal() and str(image.get("height")).isdecimal()), (page, image)


def test_nothing_is_asked_for_elsewhere(parsed: dict[str, Page]):
    for page, content in parsed.items():
        assert [script for script in content.scripts if re.match(r"(https?:)?//", script)] == [], page


@pytest.mark.parametrize(("page", "width", "scheme"), EVERYWHERE + OTHERWISE)
def test_a_page_opens_without_an_error_and_fits(browser: Chrome, page: str, width: int, scheme: str):
    _open(browser, page, width=width, scheme=scheme)
    needed, there = browser.execute_script("const d = document.documentElement; return [d.scrollWidth, d.clientWidth]")
    assert needed == there
    assert browser.execute_script("return document.body.dataset.mdColorScheme") == _palette(scheme)
    unseen = browser.execute_async_script(
        "const done = arguments[0], all = [...document.images];"
        "all.forEach(i => { i.loading = 'eager'; });"
        "Promise.all(all.map(i => i.decode().then(() => '', () => i.src))).then(l => done(l.filter(Boolean)))"
    )
    assert unseen == []
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)")
    assert [name for name in asked if not name.startswith("file:")] == []
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("page", FEW)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_text_stands_out_from_its_ground(browser: Chrome, page: str, width: int, scheme: str):
    _open(browser, page, width=width, scheme=scheme)
    assert browser.execute_script(CONTRAST) == []


@pytest.mark.parametrize("page", ["index.html", "results.html", "radio.html"])
def test_nothing_moves_while_a_page_with_pictures_arrives(browser: Chrome, page: str):
    _open(browser, page, width=1280, scheme="light")
    moved = browser.execute_async_script(
        "const done = arguments[0]; let sum = 0;"
        "new PerformanceObserver(l => l.getEntries().forEach(e => { if (!e.hadRecentInput) sum += e.value; }))"
        ".observe({type: 'layout-shift', buffered: true});"
        "document.querySelectorAll('img').forEach(i => { i.loading = 'eager'; });"
        "Promise.all([...document.images].map(i => i.decode())).then(() => setTimeout(() => done(sum), 300))"
    )
    assert moved < 0.01


@pytest.mark.parametrize(
    ("words", "page"),
    [("cyclic prefix", "radio.html"), ("participation cap", "pfels-plus.html"), ("npz", "own-data.html")],
)
def test_the_search_finds_words_without_a_server(browser: Chrome, words: str, page: str):
    _open(browser, "index.html", width=1280, scheme="light")
    box = browser.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]")
    box.send_keys(words)
    hits = "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    found = WebDriverWait(browser, 20).until(lambda b: b.execute_script(hits))
    assert any(page in link for link in found), found
    box.send_keys(Keys.ESCAPE)
    assert browser.get_log("browser") == []


def test_the_colours_can_be_switched_by_hand(browser: Chrome):
    _open(browser, "index.html", width=1280, scheme="light")
    seen = [browser.execute_script("return document.body.dataset.mdColorScheme")]
    for _ in range(3):
        next(
            e for e in browser.find_elements(By.CSS_SELECTOR, "[data-md-component=palette] label") if e.is_displayed()
        ).click()
        seen.append(browser.execute_script("return document.body.dataset.mdColorScheme"))
    assert seen == ["default", "default", "slate", "default"]  # as the system, light, dark, as the system
    browser.execute_script("localStorage.clear()")


def test_every_button_and_box_has_a_name(browser: Chrome):
    _open(browser, "index.html", width=390, scheme="light")
    nameless = browser.execute_script(
        "const named = e => e.textContent.trim() || e.title || e.ariaLabel || e.placeholder;"
        "return [...document.querySelectorAll('button, input:not([type=hidden]), label, a')]"
        ".filter(e => e.getBoundingClientRect().width && !named(e)).map(e => e.outerHTML.slice(0, 120))"
    )
    assert nameless == []


def _open(browser: Chrome, page: str, *, width: int, scheme: str) -> None:
    prefer(browser, scheme)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get_log("browser")  # what an earlier test left there
    browser.get((SITE / page).as_uri())


def _palette(scheme: str) -> str:
    return "slate" if scheme == "dark" else "default"


def _built(page: Path) -> Path:
    return (SITE / page.relative_to(ROOT / "docs")).with_suffix(".html")
