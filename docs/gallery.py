"""Takes a picture of every view of the demo: python docs/gallery.py demo out/gallery

`make gallery` makes the demo first. The pictures are PNG files, with an index.html that shows them; they are not kept
in the repository. Needs playwright and a Chromium (MBURST_CHROMIUM, or /usr/bin/chromium).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
DESKTOP, PHONE = (1400, 1000), (390, 844)
MBURST = [sys.executable, "-m", "mburst"]
BURST = ["--bin", "1ms", "--threshold", "0.8", "--join", "5ms", "--min-duration", "3ms"]


@contextmanager
def live(store: Path) -> Iterator[str]:
    """The live view of a store, and its address."""
    process = subprocess.Popen([*MBURST, "live", str(store), "--listen", "127.0.0.1:0", *BURST],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().rsplit(": ", 1)[1].strip()
    finally:
        process.terminate()
        process.wait(30)


def picture(browser: Any, url: str, path: Path, size: tuple[int, int], scheme: str, keys: str = "") -> None:
    """One page as a reader sees it, after some keys."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    page.wait_for_timeout(2000)
    for key in keys.split():
        page.keyboard.press(key)
        page.wait_for_timeout(1000)
    page.screenshot(path=path, full_page=not keys)
    page.close()


def main(demo: Path, folder: Path) -> None:
    """Write the pictures and their index."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    investigation = folder / "investigation.html"
    subprocess.run([*MBURST, "investigate", str(demo / "store"), "-o", str(investigation)], check=True,
                   stdout=subprocess.DEVNULL)
    report = sorted((demo / "report").glob("*.html"))[0]
    with live(demo / "store") as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("MBURST_CHROMIUM", "/usr/bin/chromium"), args=FLAGS)
        views = {
            "live": (address, DESKTOP, "light", ""), "live-dark": (address, DESKTOP, "dark", ""),
            "live-burst": (address, DESKTOP, "light", "p"), "live-phone": (address, PHONE, "light", ""),
            "report": (report.resolve().as_uri(), DESKTOP, "light", ""),
            "investigation": (investigation.resolve().as_uri(), DESKTOP, "light", ""),
        }
        for name, (url, size, scheme, keys) in views.items():
            picture(browser, url, folder / f"{name}.png", size, scheme, keys)
        browser.close()
    figures = "".join(f'<figure><img src="{name}.png" alt="{name}"><figcaption>{name}</figcaption></figure>\n'
                      for name in views)
    (folder / "index.html").write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>mburst</title>\n'
                                       f"<style>img{{max-width:100%}}</style>\n{figures}</html>\n", encoding="utf-8")
    print(f"gallery: {folder / 'index.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
