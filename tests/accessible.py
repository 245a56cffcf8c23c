"""What a page of ours breaks of the rules of axe-core, and whether it is wider than its window.

As a program it looks at pages of the site: ``python -m tests.accessible site``.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

PAGES = ("index", "start", "report", "monitoring", "benchmarks")
VIEWS = tuple(product((390, 1280), ("light", "dark")))


class NoBrowserError(RuntimeError):
    """No browser can be started; the message says why."""


@contextmanager
def started() -> Iterator[Any]:
    """Start a headless Chromium: the one of CHROME_BIN, the system's, or playwright's own."""
    from playwright import sync_api

    names = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROME_BIN") or next(filter(None, map(shutil.which, names)), None)
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=found, args=["--no-sandbox"], timeout=60_000
            )
        except sync_api.Error as error:
            lines = str(error).splitlines()
            missing = (line for line in lines if "error while loading" in line)
            raise NoBrowserError(next(missing, lines[0])) from None
        yield browser
        browser.close()


def violations(tab: Any) -> list[str]:
    """Return what an open page breaks, on screen and on paper."""
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for media in ("screen", "print"):
        tab.emulate_media(media=media)
        broken = Axe().run(tab).response["violations"]
        found += [f"{media}: {each['id']}: {each['nodes'][0]['html'][:120]}" for each in broken]
        width, window = tab.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        if width > window:
            found.append(f"{media}: the page is {width} pixels wide, its window {window}")
    return found


def main(site: Path) -> int:
    """Look at pages of the site; return how many are wrong."""
    wrong = 0
    try:
        with started() as browser:
            for page, (width, scheme) in product(PAGES, VIEWS):
                view = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
                tab = browser.new_page(**view)
                tab.goto((site / f"{page}.html").resolve().as_uri())
                found = violations(tab)
                tab.close()
                wrong += bool(found)
                for line in found:
                    print(f"{page}, {width} pixels, {scheme}: {line}")
    except NoBrowserError as error:
        print(f"the site is not tried in a browser: {error}")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
