"""The colours of reports by their meaning, distinct for any colour vision and on paper."""

from __future__ import annotations

LIGHT = {
    "paper": "#fcfcfa",
    "ink": "#1d2227",
    "muted": "#5b6570",
    "rule": "#dfe2e1",
    "wash": "#f2f3f0",
    "largest": "#6893bb",
    "largest-fill": "rgba(104,147,187,0.42)",
    "mean": "#1f5a8c",
    "mean-fill": "rgba(31,90,140,0.55)",
    "second": "#c2410c",
    "burst": "#8f6b12",
    "burst-fill": "rgba(222,174,60,0.17)",
    "chosen-fill": "rgba(222,160,30,0.28)",
    "latency": "#0c7a6c",
    "latency-median": "#4b9b8e",
    "queue": "#6b4aa0",
    "queue-fill": "rgba(107,74,160,0.22)",
    "loss": "#b42318",
    "good": "#2f6b3a",
}

DARK = {
    "paper": "#14171a",
    "ink": "#e4e7ea",
    "muted": "#9aa5b1",
    "rule": "#2d3339",
    "wash": "#1c2024",
    "largest": "#56809f",
    "largest-fill": "rgba(86,128,159,0.40)",
    "mean": "#86bbe8",
    "mean-fill": "rgba(100,165,220,0.55)",
    "second": "#f9905a",
    "burst": "#d8ac48",
    "burst-fill": "rgba(216,172,72,0.16)",
    "chosen-fill": "rgba(216,172,72,0.34)",
    "latency": "#3fc4ae",
    "latency-median": "#2b7468",
    "queue": "#b39be0",
    "queue-fill": "rgba(179,155,224,0.25)",
    "loss": "#ff8477",
    "good": "#7cc58a",
}


def css() -> str:
    """Returns the palettes as custom properties: light, dark if the reader's system is, and light again on paper."""
    return (
        f":root{{{_block(LIGHT)}color-scheme:light dark}}"
        f"@media (prefers-color-scheme:dark){{:root{{{_block(DARK)}}}}}"
        f"@media print{{:root{{{_block(LIGHT)}}}}}"
    )


def css_of_choice() -> str:
    """Returns the palettes for a reader who chose one: the root has data-theme."""
    return (
        f":root[data-theme=light]{{{_block(LIGHT)}color-scheme:light}}"
        f":root[data-theme=dark]{{{_block(DARK)}color-scheme:dark}}"
    )


def _block(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())
