"""A report opened from disk in a real, headless Chromium."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from pfels.report.page import write_report
from tests.report.stored_runs import folder_of_runs

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
Open = Callable[..., Chrome]


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write_report([folder_of_runs(tmp_path_factory.mktemp("runs"))])["report"])


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium, "needs chromium: make test-browser installs it"
    assert driver, "needs chromedriver: make test-browser installs it"
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with Chrome(options=options, service=Service(driver)) as chrome:
        yield chrome


@pytest.fixture
def page(browser: Chrome, report: Path) -> Open:
    """Opens a report at a width and in a colour scheme, scrolls through it, and waits until every figure is drawn."""

    def opened(*, width: int = 1280, scheme: str = "light", path: Path = report) -> Chrome:
        prefer(browser, scheme)
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        browser.get_log("browser")  # what an earlier test left there
        browser.get(path.as_uri())
        draw_all(browser)
        WebDriverWait(browser, 30).until(
            lambda b: b.execute_script(
                "return [...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))"
            )
        )
        return browser

    return opened


def draw_all(browser: Chrome) -> None:
    """Bring every figure near the window, one after the other, since none is drawn before; then back to the top."""
    browser.execute_async_script(
        "const done = arguments[0], plots = [...document.querySelectorAll('.plot')];"
        "const frame = () => new Promise(next => requestAnimationFrame(() => setTimeout(next)));"
        "(async () => { for (const plot of plots) { plot.scrollIntoView({behavior: 'instant'}); await frame(); }"
        " scrollTo({top: 0, behavior: 'instant'}); await frame(); done(); })();"
    )


def prefer(browser: Chrome, scheme: str) -> None:
    """Put the reader's preference for light or dark."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
