"""Draws the pictures of docs/which-join.md, from the rows of its examples: `python docs/pictures.py`.

Every r has a lane of its own, with its window and the s that could be its partners. Circles are r and squares are s,
filled if they have a partner: with `take=`, the chosen one. On the right is what comes out for this r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH, LEFT, RIGHT, RESULTS = 680, 110, 440, 490  # of a picture; from and to where lanes go; where results begin
TOP, LANE, FOOT = 64, 58, 34
STYLE = """
text { font: 14px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
.paper { fill: #ffffff; stroke: #d0d7de }
.soft { fill: #59636e }
.head { font-weight: 600 }
.axis { stroke: #8c959f }
.window { fill: #0b62c4; fill-opacity: .13; stroke: #0b62c4; stroke-dasharray: 4 3 }
.r { fill: #0b62c4; stroke: #0b62c4; stroke-width: 2 }
.s { fill: #b35900; stroke: #b35900; stroke-width: 2 }
.alone { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .paper { fill: #161b22; stroke: #3d444d }
  .soft { fill: #9da7b1 }
  .window { fill: #6cb6ff; fill-opacity: .16; stroke: #6cb6ff }
  .r { fill: #6cb6ff; stroke: #6cb6ff }
  .s { fill: #f0a35e; stroke: #f0a35e }
  .alone { fill: #161b22 }
}
"""


class Picture:
    """Shapes and words on a card that is light or dark, as the reader's system is."""

    def __init__(self, name: str, title: str, says: str) -> None:
        self.name, self.title, self.says = name, title, says
        self._parts: list[str] = []
        self._height = 0.0

    def words(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        kind = f' class="{style}"' if style else ""
        self._parts.append(f'<text{kind} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')

    def bar(self, x: float, y: float, width: float, height: float, style: str) -> None:
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"'
        self._parts.append(f'<rect class="{style}" {shape}/>')

    def window(self, begin: float, end: float, y: float) -> None:
        self.bar(begin, y - 9, end - begin, 18, "window")

    def circle(self, x: float, y: float, style: str, radius: float = 7) -> None:
        self._parts.append(f'<circle class="{style}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')

    def line(self, x: float, y: float, to_x: float, to_y: float) -> None:
        self._parts.append(f'<line class="axis" x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}"/>')

    def r(self, x: float, y: float, label: str = "", partner: bool = True) -> None:
        self.circle(x, y, "r" if partner else "r alone")
        self.words(x, y - 13, label, anchor="middle")

    def s(self, x: float, y: float, label: str = "", partner: bool = True) -> None:
        self.bar(x - 6, y - 6, 12, 12, "s" if partner else "s alone")
        self.words(x, y + 22, label, anchor="middle")

    def heads(self, lanes: str, plot: str, results: str) -> None:
        """What stands above the lanes, the plot and the results."""
        self.words(16, 26, lanes, "soft")
        self.words((LEFT + RIGHT) / 2, 26, plot, "soft", "middle")
        self.words(RESULTS, 26, results, "head")

    def lane(self, number: int, label: str, results: Sequence[str]) -> float:
        """The height at which a lane's rows stand."""
        y = TOP + LANE * number
        self.words(16, y + 5, label)
        self.line(LEFT, y, RIGHT, y)
        self.results(y, results)
        return y

    def results(self, y: float, rows: Sequence[str]) -> None:
        """What comes out, at the height of the r to which it belongs."""
        for k, row in enumerate(rows or ["–"]):
            self.words(RESULTS, y + 5 + 20 * (k - (max(len(rows), 1) - 1) / 2), row, "" if rows else "soft")

    def legend(self, y: float, r: str, s: str, window: str) -> None:
        """What the signs stand for: the last line of a picture."""
        self.circle(24, y - 5, "r", 6)
        self.words(38, y, r, "soft")
        self.bar(150, y - 11, 12, 12, "s")
        self.words(170, y, s, "soft")
        self.bar(296, y - 11, 24, 12, "window")
        self.words(328, y, window, "soft")
        self._height = y + 18

    def svg(self) -> str:
        size = f'width="{WIDTH}" height="{self._height:g}" viewBox="0 0 {WIDTH} {self._height:g}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title says">',
                f'<title id="title">{escape(self.title)}</title>',
                f'<desc id="says">{escape(self.says)}</desc>',
                f"<style>{STYLE}</style>",
                f'<rect class="paper" x=".5" y=".5" width="{WIDTH - 1}" height="{self._height - 1:g}" rx="8"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def across(low: float, high: float) -> Callable[[float], float]:
    """From a value to where it stands in a lane."""
    return lambda value: LEFT + (RIGHT - LEFT) * (value - low) / (high - low)


def left() -> Picture:
    picture = Picture(
        "left",
        "Left join within a window: which adverts came before a purchase",
        "User 1 bought at minute 60 and saw adverts a and b in the 30 minutes before: two rows. "
        "User 2 bought at minute 75 and saw none: one row with null. User 3 bought nothing: no row.",
    )
    at = across(25, 80)
    picture.heads("same user", "minute", 'how="left"')
    for k, (bought, shown, rows) in enumerate(
        [
            (60, {"a, 35": 35, "b, 50": 50}, ["1, a", "1, b"]),
            (75, {}, ["2, null"]),
            (None, {"c, 40": 40}, []),
        ]
    ):
        y = picture.lane(k, f"user {k + 1}", rows)
        if bought:
            picture.window(at(bought - 30), at(bought), y)
            picture.r(at(bought), y, str(bought), bool(shown))
        for label, when in shown.items():
            picture.s(at(when), y, label, bool(bought))
    picture.legend(TOP + 3 * LANE, "purchase (r)", "advert (s)", "window: the 30 minutes before")
    return picture


def as_of() -> Picture:
    picture = Picture(
        "backward",
        "As-of join: the latest quote before each trade, at most 5 old",
        "The trade at 10 takes the quote at 7, the latest one in the 5 before it. "
        "The trade at 20 has no quote in the 5 before it: null.",
    )
    at = across(0, 25)
    picture.heads("symbol x", "time", 'take="backward"')
    for k, (trade, best, row) in enumerate([(10, 7, "10, bid 4.9"), (20, None, "20, null")]):
        y = picture.lane(k, f"trade at {trade}", [row])
        picture.window(at(trade - 5), at(trade), y)
        for quote in (3, 7, 24):
            picture.s(at(quote), y, str(quote), quote == best)
        picture.r(at(trade), y, str(trade), best is not None)
    picture.legend(TOP + 2 * LANE, "trade (r)", "quote (s)", "window: the 5 before")
    return picture


def anti() -> Picture:
    picture = Picture(
        "anti",
        "Anti join: which machines sent no heartbeat after a command",
        "Machine 1 sends a heartbeat 30 seconds after its command: no row. "
        "Machine 2 sends none within 60 seconds: it comes out.",
    )
    at = across(-5, 75)
    picture.heads("same machine", "second", 'how="anti"')
    for machine, beat in ((1, 30), (2, None)):
        y = picture.lane(machine - 1, f"machine {machine}", [] if beat else ["machine 2"])
        picture.window(at(0), at(60), y)
        picture.r(at(0), y, "0", beat is not None)
        if beat:
            picture.s(at(beat), y, str(beat))
    picture.legend(TOP + 2 * LANE, "command (r)", "heartbeat (s)", "window: the 60 seconds after")
    return picture


def aggregate() -> Picture:
    picture = Picture(
        "aggregate",
        "Aggregate: the quotes around each trade, as one row per trade",
        "The trade at 10 has two quotes within 10 of it, 4.5 and 4.9: n 2, low 4.5, mean 4.7. "
        "The trade at 20 has one, 6.1: n 1, low 6.1, mean 6.1.",
    )
    at = across(-2, 32)
    picture.heads("symbol x", "time, bids below", "aggregate=")
    quotes = {3: "4.5", 7: "4.9", 24: "6.1"}
    for k, (trade, row) in enumerate([(10, "n 2, low 4.5, mean 4.7"), (20, "n 1, low 6.1, mean 6.1")]):
        y = picture.lane(k, f"trade at {trade}", [row])
        picture.window(at(trade - 10), at(trade + 10), y)
        for quote, bid in quotes.items():
            picture.s(at(quote), y, bid, abs(quote - trade) <= 10)
        picture.r(at(trade), y, str(trade))
    picture.legend(TOP + 2 * LANE, "trade (r)", "quote (s)", "window: from 10 before to 10 after")
    return picture


def overlap() -> Picture:
    picture = Picture(
        "overlap",
        "Lifetimes on both sides: who was in a room while it was open",
        "Room a is open from 0 to 5 and from 8 on, room b from 0 to 3. Kim stays from 4 to 9, Lee from 3 to 8. "
        "Kim meets room a twice and Lee once. Lee comes when room b closes and leaves when room a opens again: no row.",
    )
    at, high = across(0, 11), 70
    picture.heads("no key", "hour", "room, guest")
    for k, (room, since, until, words) in enumerate(
        [("a", 0, 5, "0 to 5"), ("a", 8, 11, "from 8 on"), ("b", 0, 3, "0 to 3")]
    ):
        y = TOP + high * k
        picture.words(16, y + 5, f"room {room}")
        picture.bar(at(since), y - 8, at(until) - at(since), high - 20, "window")
        picture.bar(at(since), y - 8, at(until) - at(since), 12, "r")
        picture.words(at(since), y - 14, words)
        met: list[str] = []
        for below, name, come, go in ((y + 10, "kim", 4, 9), (y + 24, "lee", 3, 8)):
            partner = come < until and since < go
            picture.bar(at(come), below, at(go) - at(come), 8, "s" if partner else "s alone")
            picture.words(at(go) + 8, below + 9, name, "soft")
            met += [f"{room}, {name}"] if partner else []
        picture.results(y + 14, met)
    picture.legend(TOP + high * 3, "room (r)", "guest (s)", "while the room is open")
    return picture


def geofences() -> Picture:
    picture = Picture(
        "geofence",
        "Geofences: a join by place, with neither key nor window",
        "Position 1 at (1, 1) lies within 2 of the centre of fence home at (0, 0). "
        "Position 2 at (9, 9) lies in no fence: null.",
    )
    unit, low = 16.0, 236.0

    def x(value: float) -> float:
        return 180 + unit * value

    def y(value: float) -> float:
        return low - unit * (value + 2)

    picture.heads("no key", "place", 'how="left"')
    for fence, centre, radius in (("home", 0, 2), ("work", 5, 1)):
        picture.circle(x(centre), y(centre), "window", unit * radius)
        picture.s(x(centre), y(centre), partner=fence == "home")
        picture.words(x(centre) + unit * radius + 10, y(centre) + 5, fence)
    for number, place, found in ((1, 1, "home"), (2, 9, None)):
        picture.r(x(place), y(place), str(number), found is not None)
        picture.results(y(place), [f"{number}, {found or 'null'}"])
    picture.legend(low + FOOT, "position (r)", "centre (s)", "fence: its radius around the centre")
    return picture


def nearest() -> Picture:
    picture = Picture(
        "nearest",
        "The nearest of several sensors: a window in time, a band in space, the best of both",
        "The event at second 1 has two readings within half a second and ten metres, at 0.9 and at 1.2: it takes "
        "the one at 0.9. The third reading is 99 metres away. The event at second 2 has no reading near it: null.",
    )
    at, low, unit = across(0.2, 2.8), 214.0, 1.4

    def y(metres: float) -> float:
        return low - 16 - unit * metres

    picture.heads("metres", "second", 'take="nearest"')
    for metres in (0, 50, 100):
        picture.words(76, y(metres) + 5, str(metres), "soft", "end")
        picture.line(LEFT, y(metres), RIGHT, y(metres))
    for second, metres, found in ((1, 0, "7"), (2, 50, None)):
        picture.bar(at(second - 0.5), y(metres + 10), at(second + 0.5) - at(second - 0.5), 20 * unit, "window")
        picture.results(y(metres), [f"event at {second}: {found or 'null'}"])
    for when, metres, value in ((0.9, 1, 7), (1.2, 2, 8), (1.05, 99, 9)):
        picture.s(at(when), y(metres), f"{value}", value == 7)
    picture.r(at(1), y(0), "1")
    picture.r(at(2), y(50), "2", partner=False)
    picture.legend(low + FOOT, "event (r)", "reading (s)", "within 500 ms and 10 metres")
    return picture


PICTURES = (left, as_of, anti, aggregate, overlap, geofences, nearest)


def drawings() -> Iterator[tuple[Path, str]]:
    """Every picture's file, and what it holds."""
    for draw in PICTURES:
        picture = draw()
        yield IMAGES / f"join-{picture.name}.svg", picture.svg()


if __name__ == "__main__":
    for path, text in drawings():
        path.write_text(text, encoding="utf-8")
