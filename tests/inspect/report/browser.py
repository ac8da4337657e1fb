"""A headless chromium that looks at pages."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """A window of chosen size and colours."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int, dark: bool = False, script: bool = True) -> None:
        """Open a page; the console is empty afterwards but for what the page wrote."""
        call = self.driver.execute_cdp_cmd
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        call("Emulation.setEmulatedMedia", {"features": [scheme]})
        call("Emulation.setScriptExecutionDisabled", {"value": not script})
        self.driver.get_log("browser")
        self.driver.get(page.as_uri())

    def run(self, code: str, *arguments: object) -> Any:
        return self.driver.execute_script(code, *arguments)

    def errors(self) -> list[str]:
        """What is on the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def picture(self) -> bytes:
        """The whole page as PNG."""
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(shot["data"])


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; skips the test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=service.Service(executable_path=DRIVER))
    driver.set_page_load_timeout(30)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
