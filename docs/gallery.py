"""Takes a picture of every view of the demo: python docs/gallery.py demo docs/gallery

`make gallery` makes the demo first. docs/gallery.md says what each picture shows; the pictures are not kept in the
repository. Needs playwright and a Chromium (MBURST_CHROMIUM, or /usr/bin/chromium), and pdftoppm for the printed page.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP, PHONE = (1400, 1000), (390, 844)
MBURST = [sys.executable, "-m", "mburst"]
BURST = ["--bin", "1ms", "--threshold", "0.8", "--join", "5ms", "--min-duration", "3ms"]


@contextmanager
def live(store: Path) -> Iterator[str]:
    """The live view of a store, and its address."""
    process = subprocess.Popen(
        [*MBURST, "live", str(store), "--listen", "127.0.0.1:0", *BURST], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield process.stdout.readline().rsplit(": ", 1)[1].strip()
    finally:
        process.terminate()
        process.wait(30)


def views(demo: Path, folder: Path, live_at: str) -> dict[str, tuple[str, tuple[int, int], str, str]]:
    """The address of each view, how large and in which colours it is seen, and which keys are pressed before."""
    investigation = folder / "investigation.html"
    subprocess.run(
        [*MBURST, "investigate", str(demo / "store"), "-o", str(investigation)], check=True, stdout=subprocess.DEVNULL
    )
    racks = folder / "racks"
    subprocess.run(
        [*MBURST, "report", str(demo / "store"), "--all-racks", "--since", "24h", "-o", str(racks), *BURST],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    report, index = sorted((demo / "report").glob("*.html"))[0], racks / "index.html"
    rack = sorted(racks.glob("rack-*.html"))[0]
    return {
        "live": (live_at, DESKTOP, "light", ""),
        "live-dark": (live_at, DESKTOP, "dark", ""),
        "live-burst": (live_at, DESKTOP, "light", "p"),
        "live-phone": (live_at, PHONE, "light", ""),
        "report": (report.resolve().as_uri(), DESKTOP, "light", ""),
        "investigation": (investigation.resolve().as_uri(), DESKTOP, "light", ""),
        "rack": (rack.resolve().as_uri(), DESKTOP, "light", ""),
        "rack-index": (index.resolve().as_uri(), DESKTOP, "light", ""),
    }


def picture(browser: Any, url: str, path: Path, size: tuple[int, int], scheme: str, keys: str) -> None:
    """One page as a reader sees it, after some keys."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(url)
    if page.locator("script").count():  # which says when it has drawn
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        page.wait_for_timeout(2000)
    for key in keys.split():
        page.keyboard.press(key)
        page.wait_for_timeout(1000)
    page.screenshot(path=path, full_page=not keys)
    page.close()


def printed(browser: Any, url: str, path: Path) -> None:
    """The first sheet of a page on paper."""
    page = browser.new_page()
    page.goto(url)
    page.pdf(path=path.with_suffix(".pdf"), format="A4", print_background=True)
    page.close()
    subprocess.run(
        ["pdftoppm", "-png", "-r", "80", "-singlefile", path.with_suffix(".pdf"), path.with_suffix("")], check=True
    )


def main(demo: Path, folder: Path) -> None:
    """Write the pictures."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with live(demo / "store") as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("MBURST_CHROMIUM", "/usr/bin/chromium"), args=FLAGS
        )
        seen = views(demo, folder, address)
        for name, (url, size, scheme, keys) in seen.items():
            picture(browser, url, folder / f"{name}.png", size, scheme, keys)
        printed(browser, seen["rack"][0], folder / "rack-print.png")
        browser.close()
    print(f"pictures of {len(seen) + 1} views: {folder} ({Path(__file__).with_suffix('.md').name} explains them)")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
