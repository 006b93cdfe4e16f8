"""Takes a picture of every view of the simulated demo: python docs/gallery.py docs/gallery

`make gallery` sets up what it needs: playwright, rich, Pillow, a Chromium (MBURST_CHROMIUM, or Debian's)
and pdftoppm for the printed page. The seed of the demo is fixed, so that a picture changes only where its page does.
docs/gallery.md shows the pictures; docs/gallery/made-from.json has a digest of what each was made from.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "lib"))

from browserlib import CHROMIUM, FLAGS

DESKTOP, PHONE = (1300, 800), (390, 844)
MBURST = [sys.executable, "-m", "mburst"]
BURST = ["--bin", "1ms", "--threshold", "0.8", "--join", "5ms", "--min-duration", "3ms"]
DASHBOARDS = Path(__file__).parents[1] / "dashboards"
MADE_FROM = "made-from.json"
COLUMNS, LAST_SHOWN = 112, "$ mburst report"  # of the terminal, and where its picture ends


class View(NamedTuple):
    """A page as it is seen: the ROOM of dashboards/ that draws it, a size, colours, and keys pressed before."""

    room: str
    size: tuple[int, int] = DESKTOP
    scheme: str = "light"
    keys: str = ""


VIEWS = {
    "live": View("live"),
    "live-dark": View("live", scheme="dark"),
    "live-burst": View("live", keys="p"),
    "live-phone": View("live", PHONE),
    "report": View("report"),
    "investigation": View("investigation"),
    "rack": View("rack"),
    "rack-print": View("rack"),
}


def digest(room: str) -> str:
    """Of the templates and style sheets of a page: what it looks like. Code can change without them."""
    files = [
        path
        for kind, suffix in (("templates", "html"), ("static", "css"))
        for part in ("common", room)
        for path in sorted((DASHBOARDS / kind / part).glob(f"*.{suffix}"))
    ]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def made_from() -> dict[str, str]:
    """The digest of each picture of a page."""
    return {f"{name}.png": digest(view.room) for name, view in VIEWS.items()}


def called(*arguments: str) -> str:
    """What a command prints."""
    return subprocess.run([*MBURST, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


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


def pages(store: Path) -> dict[str, str]:
    """The address of each room's page."""
    folder = store.parent
    called("investigate", str(store), "-o", str(folder / "investigation.html"))
    called("report", str(store), "--all-racks", "--since", "24h", "-o", str(folder / "racks"), *BURST)
    found = {
        "report": sorted((folder / "report").glob("*.html"))[0],
        "investigation": folder / "investigation.html",
        "rack": sorted((folder / "racks").glob("rack-*.html"))[0],
    }
    return {room: path.resolve().as_uri() for room, path in found.items()}


def picture(browser: Any, url: str, path: Path, view: View) -> None:
    """The first screen of a page, after some keys."""
    page = browser.new_page(viewport=dict(zip(("width", "height"), view.size, strict=True)), color_scheme=view.scheme)
    page.goto(url)
    if page.locator("script").count():  # which says when it has drawn
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        page.wait_for_timeout(2000)
    for key in view.keys.split():
        page.keyboard.press(key)
        page.wait_for_timeout(1000)
    page.screenshot(path=path)
    page.close()


def printed(browser: Any, url: str, path: Path) -> None:
    """The first sheet of a page on paper."""
    page, paper = browser.new_page(), Path("printed.pdf")
    page.goto(url)
    page.pdf(path=paper, format="A4", print_background=True)
    page.close()
    subprocess.run(["pdftoppm", "-png", "-r", "80", "-singlefile", paper, path.with_suffix("")], check=True)


def fewer_colours(path: Path) -> None:
    """The same picture in 256 colours: a third of the bytes."""
    from PIL import Image

    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def recording(command: str, output: str) -> str:
    """A terminal with a command and what it printed, as SVG that asks the network for nothing."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in [f"$ {command}", *output.splitlines()]:
        console.print(Text(line, "bold green" if line.startswith("$ ") else ""))
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=command, code_format=without_fonts, unique_id="terminal")


def terminal(output: str) -> str:
    """The terminal after `mburst demo --simulate` has printed OUTPUT."""
    return recording("mburst demo --simulate", output.split(LAST_SHOWN)[0].rstrip())


def main(folder: Path) -> None:
    """Write the pictures."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "terminal.svg").write_text(terminal(called("demo", "--simulate")), "utf-8")
    store = Path("demo/store")
    with live(store) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        urls = {"live": address, **pages(store)}
        for name, view in VIEWS.items():
            path = folder / f"{name}.png"
            if name.endswith("-print"):
                printed(browser, urls[view.room], path)
            else:
                picture(browser, urls[view.room], path, view)
            fewer_colours(path)
        browser.close()
    (folder / MADE_FROM).write_text(json.dumps(made_from(), indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{len(VIEWS) + 1} pictures: {folder}")


if __name__ == "__main__":
    wanted = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)  # so that the pictures name no folder of this machine
        main(wanted)
