"""The report in a browser: every figure is drawn, the console stays empty, any width is readable, legends work."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from pfels.report.page import write_report
from tests.browser.conftest import Open, draw_all, prefer
from tests.report.stored_runs import MARKUP, many_runs
from tests.report.test_colours import contrast

SHIFTS = (
    "window.shifts = 0; new PerformanceObserver(list => { for (const each of list.getEntries()) shifts += each.value })"
    ".observe({type: 'layout-shift', buffered: true})"
)
# The longest wait for a frame in milliseconds, half a window at a time from top to bottom.
SCROLL = """
const done = arguments[0], frame = () => new Promise(next => requestAnimationFrame(() => setTimeout(next)));
(async () => {
  let longest = 0;
  for (let y = 0; y <= document.documentElement.scrollHeight; y += 450) {
    const before = performance.now(); scrollTo(0, y); await frame();
    longest = Math.max(longest, performance.now() - before);
  }
  done(longest);
})();
"""
# Every element with text of its own: what it is, its colour, and the first opaque colour behind it.
TEXTS = """
const hex = (rgb) => "#" + rgb.match(/\\d+/g).slice(0, 3).map(n => Number(n).toString(16).padStart(2, "0")).join("");
const behind = (e) => { for (; e; e = e.parentElement) {
  const ground = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(ground)) return ground; } };
const own = (e) => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
return [...document.querySelectorAll("body *")].filter(e => own(e) && !e.closest("script, noscript, svg"))
  .map(e => [e.tagName + "." + e.className, hex(getComputedStyle(e).color), hex(behind(e))]);
"""
LINES = "[...document.querySelectorAll('[data-figure={}] .scatterlayer .trace')].length"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_plot_is_drawn_and_the_console_stays_empty(page: Open, width: int, scheme: str):
    browser = page(width=width, scheme=scheme)
    plots = browser.find_elements(By.CSS_SELECTOR, ".js-plotly-plot")
    assert len(plots) == len(browser.find_elements(By.CSS_SELECTOR, ".plot")) >= 7
    for plot in plots:
        assert plot.find_elements(By.CSS_SELECTOR, "svg .scatterlayer .trace path"), plot.get_attribute("data-figure")
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [1280, 768, 390, 320])
def test_the_page_never_scrolls_sideways(page: Open, width: int):
    browser = page(width=width)
    _unfold(browser)
    needed, there = browser.execute_script("const d = document.documentElement; return [d.scrollWidth, d.clientWidth]")
    assert needed == there
    assert browser.execute_script("return innerWidth") == width


def test_a_click_on_a_legend_switches_its_lines_off_and_on_in_every_figure(page: Open):
    browser = page()
    before = {name: _lines(browser, name) for name in ("s1-accuracy", "s1-energy")}
    button = browser.find_element(By.CSS_SELECTOR, ".legend button[data-group='0']")
    button.click()
    assert _lines(browser, "s1-accuracy") == before["s1-accuracy"] - 2  # a line and its band
    assert _lines(browser, "s1-energy") == before["s1-energy"] - 1
    twins = browser.find_elements(By.CSS_SELECTOR, ".legend button[data-group='0']")
    assert len(twins) > 1
    assert {twin.get_attribute("aria-pressed") for twin in twins} == {"false"}
    twins[-1].send_keys(Keys.ENTER)
    assert {name: _lines(browser, name) for name in before} == before
    assert button.get_attribute("aria-pressed") == "true"


def test_the_axis_can_be_chosen_and_leaves_out_schemes_without_such_a_figure(page: Open):
    browser = page()
    everyone = _lines(browser, "s1-accuracy")
    for axis, title, lines in (
        ("subcarriers", "channel uses so far", everyone),
        ("energy", "energy radiated so far, J", everyone - 2),
        ("rounds", "round (the first is 0, as in rounds.jsonl)", everyone),
    ):
        browser.find_element(By.CSS_SELECTOR, f"input[value='{axis}']").click()
        assert _text(browser, "[data-figure=s1-accuracy] .xtitle") == title
        assert _lines(browser, "s1-accuracy") == lines
    assert browser.get_log("browser") == []


def test_plots_follow_the_reader_from_light_to_dark_and_back(page: Open):
    browser = page(scheme="light")
    seen = [_ink(browser)]
    for scheme in ("dark", "light"):
        prefer(browser, scheme)
        # The page hears of it with the next frame.
        WebDriverWait(browser, 10).until(lambda b: _ink(b)["title"] == _ink(b)["body"])
        seen.append(_ink(browser))
    light, dark, again = seen
    assert light == again
    assert light["title"] == light["body"] != dark["body"]
    assert light["line"] != dark["line"]


def test_a_run_name_that_is_markup_is_shown_as_text(page: Open):
    browser = page()
    _unfold(browser)
    assert MARKUP in browser.find_element(By.TAG_NAME, "main").text
    assert "broken" not in browser.title


def test_the_keyboard_reaches_the_results_the_axes_and_the_legends(page: Open):
    browser = page()
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert _focus(browser) == "Skip to the results"
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    reached = set()
    for _ in range(20):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(browser.switch_to.active_element.tag_name)
    assert {"input", "button", "summary"} <= reached


def test_nothing_moves_while_the_page_is_read(page: Open):
    for width in (1280, 390):
        browser = page(width=width)
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SHIFTS})
        browser.refresh()
        height = browser.execute_script("return document.documentElement.scrollHeight")
        draw_all(browser)
        assert browser.execute_script("return shifts") == 0
        assert browser.execute_script("return document.documentElement.scrollHeight") == height


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(page: Open, scheme: str):
    browser = page(scheme=scheme)
    _unfold(browser)
    texts = browser.execute_script(TEXTS)
    assert len(texts) > 200
    for selector, ink, ground in texts:
        assert contrast(ink, ground) >= 4.5, (selector, ink, ground)


def test_every_control_has_a_name(page: Open):
    browser = page()
    _unfold(browser)
    controls = browser.find_elements(By.CSS_SELECTOR, "a, button, input, summary, [tabindex='0']")
    assert len(controls) > 20
    for control in controls:
        assert control.accessible_name or control.tag_name == "pre", control.get_attribute("outerHTML")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper_every_figure_is_whole_and_its_colours_are_those_for_white(page: Open, scheme: str):
    light = _ink(page(scheme="light"))
    browser = page(scheme=scheme)
    browser.execute_script("scrollTo(0, 0)")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    size = {"width": 703, "height": 1000, "deviceScaleFactor": 1, "mobile": False}  # A4 within its margins
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].filter(p => { const svg = p.querySelector('.main-svg');"
        " return !svg || svg.getBoundingClientRect().width > p.clientWidth + 1 }).map(p => p.dataset.figure)"
    )
    inks = _ink(browser)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert cut == []
    assert (inks["title"], inks["line"]) == (light["title"], light["line"])


def test_a_printed_report_has_a_few_pages(page: Open):
    browser = page()
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
    pages = len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed)))
    assert 3 <= pages <= 12
    assert browser.get_log("browser") == []


def test_200_runs_open_at_once_and_scroll_without_a_halt(page: Open, tmp_path_factory: pytest.TempPathFactory):
    runs = many_runs(tmp_path_factory.mktemp("many"), count=200, rounds=100)
    browser = page(path=Path(write_report(runs)["report"]))
    browser.refresh()
    timing = "return performance.getEntriesByType('navigation')[0].loadEventEnd"
    assert browser.execute_script(timing) < 10_000  # 0.8 s on an idle machine, most of it for plotly.js
    assert browser.execute_async_script(SCROLL) < 2_000  # 0.1 s on an idle machine
    assert browser.get_log("browser") == []


def _unfold(browser: Chrome) -> None:
    browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true })")


def _lines(browser: Chrome, figure: str) -> Any:
    return browser.execute_script(f"return {LINES.format(figure)}")


def _text(browser: Chrome, selector: str) -> str:
    return browser.find_element(By.CSS_SELECTOR, selector).text


def _focus(browser: Chrome) -> str:
    return browser.switch_to.active_element.text


def _ink(browser: Chrome) -> Any:
    return browser.execute_script(
        "const ink = (s, what) => getComputedStyle(document.querySelector(s))[what];"
        "return {body: ink('body', 'color'), title: ink('[data-figure=s1-accuracy] .xtitle', 'fill'),"
        " line: ink('[data-figure=s1-accuracy] .js-line', 'stroke')}"
    )
