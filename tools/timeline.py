"""Draws docs/images/timeline.svg: two blocks of (32, 2) threads at the stock barrier and at the plugin's.

``python tools/timeline.py`` writes the file again; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "docs" / "images" / "timeline.svg"

WIDTH, PANEL, TOP = 920, 262, 16
LEFT, UNIT, BAR = 130, 76, 34
LANES = {"block 0": 62, "arrivals": 124, "block 1": 186}

# Its own ground and both palettes, so that it reads on any page, light or dark.
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: var(--ink); }
  .title { font-weight: 600; font-size: 15px; }
  .lane { fill: var(--quiet); }
  .inside { text-anchor: middle; fill: var(--on); }
  .wrong, .right { font-weight: 600; paint-order: stroke; stroke: var(--ground); stroke-width: 8px; }
  .wrong { fill: var(--bad); }
  .right { fill: var(--good); }
  .ground { fill: var(--ground); stroke: var(--line); }
  .rail, .arrow { stroke: var(--line); stroke-width: 1.5; fill: none; }
  .arrow { stroke: var(--ink); }
  .tip { fill: var(--ink); }
  .opens { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 4 4; }
  .delay { fill: var(--idle); } .write { fill: var(--work); } .read { fill: var(--work); }
  .wait { fill: var(--idle); } .count { fill: var(--ground); stroke: var(--ink); stroke-width: 1.5; }
  .over { fill: var(--ground); stroke: var(--bad); stroke-width: 2.5; }
  .digit { text-anchor: middle; }
  svg { --ground: #ffffff; --ink: #1f2733; --quiet: #5b6675; --line: #c3cad4; --idle: #d5dae2; --work: #2f6fb2;
        --on: #ffffff; --bad: #b3261e; --good: #1b7a43; --on-idle: #1f2733; }
  .delay + text, .wait + text { fill: var(--on-idle); }
  @media (prefers-color-scheme: dark) {
    svg { --ground: #1c222b; --ink: #e6eaf0; --quiet: #a4afbd; --line: #4a5563; --idle: #3d4754; --work: #3f7fc4;
          --on: #ffffff; --bad: #ff8a80; --good: #6fd39a; --on-idle: #e6eaf0; }
  }
"""


def _x(time: float) -> float:
    return LEFT + UNIT * time


def _bar(lane: str, kind: str, start: float, end: float, label: str) -> str:
    y = LANES[lane]
    middle = (_x(start) + _x(end)) / 2
    return (
        f'<rect class="{kind}" x="{_x(start):g}" y="{y - BAR / 2:g}" width="{_x(end) - _x(start) - 3:g}" height="{BAR}" rx="5"/>'
        f'<text class="inside" x="{middle:g}" y="{y + 5}">{label}</text>'
    )


def _arrival(lane: str, time: float) -> str:
    start, end = LANES[lane], LANES["arrivals"]
    away = 1 if end > start else -1
    y1, y2 = start + away * BAR / 2, end - away * 20
    return (
        f'<path class="arrow" d="M{_x(time):g} {y1:g}V{y2:g}"/><path class="tip" d="M{_x(time) - 4:g} {y2 - away * 7:g}h8l-4 {away * 7}z"/>'
    )


def _count(time: float, arrivals: int, over: bool = False) -> str:
    y = LANES["arrivals"]
    return (
        f'<circle class="{"over" if over else "count"}" cx="{_x(time):g}" cy="{y}" r="14"/>'
        f'<text class="digit" x="{_x(time):g}" y="{y + 5}">{arrivals}</text>'
    )


def _opens(time: float, label: str, kind: str) -> str:
    # Beside the line, and halfway between the counter and block 1.
    return (
        f'<path class="opens" d="M{_x(time):g} 40V208"/>'
        f'<text class="{kind}" x="{_x(time) + 8:g}" y="{LANES["arrivals"] + 5}">{label}</text>'
    )


def _panel(y: int, title: str, verdict: str, kind: str, drawn: list[str]) -> str:
    lanes = "".join(
        f'<text class="lane" x="24" y="{at + 5}">{name}</text><path class="rail" d="M{LEFT} {at}H{WIDTH - 24}"/>'
        for name, at in LANES.items()
    )
    return (
        f'<g transform="translate(0 {y})"><rect class="ground" x="8" y="0" width="{WIDTH - 16}" height="{PANEL - 14}" rx="8"/>'
        f'<text class="title" x="24" y="28">{title}</text>{lanes}{"".join(drawn)}'
        f'<text class="{kind}" x="24" y="{PANEL - 28}">{verdict}</text></g>'
    )


def drawing() -> str:
    """The SVG text."""
    stock = [
        _opens(3.2, "2 arrivals: opens", "wrong"),
        _bar("block 0", "write", 0.2, 1.4, "writes 1"),
        _arrival("block 0", 1.8),
        _count(1.8, 1),
        _arrival("block 0", 2.6),
        _count(2.6, 2, over=True),
        _bar("block 0", "read", 3.35, 5.6, "reads 1 + 0 = 1"),
        _bar("block 1", "delay", 0.2, 5.4, "late"),
        _bar("block 1", "write", 5.4, 6.6, "writes 2"),
        _bar("block 1", "read", 7.6, 10.0, "reads 1 + 2 = 3"),
    ]
    fixed = [
        _opens(7.4, "2 arrivals: opens", "right"),
        _bar("block 0", "write", 0.2, 1.4, "writes 1"),
        _arrival("block 0", 1.8),
        _count(1.8, 1),
        _bar("block 0", "wait", 2.2, 7.35, "waits"),
        _bar("block 0", "read", 7.6, 10.0, "reads 1 + 2 = 3"),
        _bar("block 1", "delay", 0.2, 5.4, "late"),
        _bar("block 1", "write", 5.4, 6.6, "writes 2"),
        _arrival("block 1", 6.9),
        _count(6.9, 2),
        _bar("block 1", "read", 7.6, 10.0, "reads 1 + 2 = 3"),
    ]
    panels = _panel(
        TOP,
        "TileLang alone: each thread with tid.x == 0 arrives for the block; of (32, 2) threads, two do",
        "[1, 3]: block 0 arrived twice and did not wait for block 1",
        "wrong",
        stock,
    ) + _panel(
        TOP + PANEL,
        "With the plugin: thread (0, 0, 0) alone arrives for the block",
        "[3, 3]: the barrier opens when both blocks have arrived",
        "right",
        fixed,
    )
    height = TOP + 2 * PANEL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="timeline-title">'
        '<title id="timeline-title">Two blocks write 1 and 2, meet at a grid barrier and read the sum: [1, 3] with the stock barrier, '
        f"[3, 3] with the plugin's</title><style>{STYLE}</style>{panels}</svg>\n"
    )


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(drawing())
