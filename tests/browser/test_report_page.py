"""The report in a browser: every figure is drawn, the console stays empty, any width is readable, legends work."""

from typing import Any

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.conftest import Open, prefer
from tests.report.stored_runs import MARKUP

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
        ("energy", "energy so far, Σ‖x‖²", everyone - 2),
        ("rounds", "rounds", everyone),
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
