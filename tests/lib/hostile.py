"""Names with markup and control characters, which every output must show as text."""

from __future__ import annotations

CANARY = "hostile"  # in each of them, so that it can be found

HOSTILE = {
    "tag": '<img src=x onerror=alert("hostile")>',
    "script": "</script><script>alert('hostile')</script>",
    "attribute": 'hostile" onmouseover="alert(1)" x=\'',
    "title": "</title></textarea></style>hostile<h1>",
    "entity": "&lt;img src=x&gt; &amp; hostile &#60;",
    "plotly link": '<a href="https://evil.example/login">Session expired, hostile</a>',
    "plotly javascript": '<a href="javascript:alert(1)">hostile</a><b>x</b><br>',
    "svg": "<svg onload=alert(1)><text>hostile</text></svg>",
    "url": "javascript:alert('hostile')",
    "terminal": "hostile\x1b]0;pwned\x07\x1b[2J\x1b[31m",
    "terminal c1": "hostile\x9b2J\x9d0;pwned\x9c",
    "return": "hostile\rmburst: no problem\x08\x08",
    "bidi": "hostile\u202etxt.exe\u202c\u2066x\u2069\u200f",
    "separators": "hostile\u2028line\u2029paragraph\x85next",
    "invisible": "hos\u200btile\u2060 hostile\ufeff\u00ad\U000e0041",
    "newline": "hostile\nmburst: forged line\r\nBcc: evil@example.net",
    "header": "hostile\r\nContent-Type: text/html\r\n\r\n<script>",
    "formula": '=HYPERLINK("http://evil.example/?hostile","click")',
    "formula plus": "+hostile|' /C calc'!A0",
    "formula minus": "-hostile",
    "formula at": "@SUM(1+1)*hostile",
    "slack": "<!channel> <http://evil.example|hostile> *x* `y`",
    "markdown": "[hostile](http://evil.example) ![x](http://evil.example/p.png) |a|b|",
    "path": "../../../etc/hostile",
    "dots": "..",
    "absolute": "/hostile/a\\b:c",
    "escape": "hostile%2e%2e%2f",
    "quotes": "hostile'\"`\\x1b",
    "template": "hostile${HOME}$title{{x}}%s{0}",
    "rtl": "\u05d0\u05d1\u05d2 hostile \u0645\u0631\u062d\u0628\u0627",
    "long": "hostile" + "é" * 300,
    "sql": "hostile'; DROP TABLE bins; --",
    "glob": "hostile*?[a-z]",
    "nul": "hostile\x00nul",
}
MARKUP = [name for name in HOSTILE.values() if "<" in name]
