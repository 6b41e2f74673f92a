"""Pictures of built-in environments, drawn from what they show. Nothing but pillow is needed; gymnasium's own pictures want pygame."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: Draws what is seen: with a pen of pillow's, the numbers and the shape they have.
    Artist = Callable[[Any, Sequence[float], tuple[int, ...]], None]

WIDTH, HEIGHT = 300, 200
_PAPER, _INK, _RED, _BLUE, _GREY = "white", "black", "#c0392b", "#2c6fbb", "#999999"


def can_draw(name: str) -> bool:
    """Whether there is a picture for this environment."""
    return _family(name) in _ARTISTS


def draw(name: str, seen: Sequence[float], shape: tuple[int, ...], caption: str) -> Any:
    """One picture of what is seen, with a line of text."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH, HEIGHT), _PAPER)
    pen = ImageDraw.Draw(image)
    _ARTISTS[_family(name)](pen, seen, shape)
    pen.text((6, 4), caption, fill=_INK)
    return image


def _family(name: str) -> str:
    return name.rpartition("-")[0]


def _cart_pole(pen: Any, seen: Sequence[float], _: tuple[int, ...]) -> None:
    x = WIDTH / 2 + seen[0] * WIDTH / 5
    ground = HEIGHT * 0.75
    pen.line((0, ground, WIDTH, ground), fill=_GREY)
    pen.rectangle((x - 20, ground - 16, x + 20, ground), fill=_INK)
    tip = (x + 90 * math.sin(seen[2]), ground - 16 - 90 * math.cos(seen[2]))
    pen.line((x, ground - 16, *tip), fill=_RED, width=5)


def _pendulum(pen: Any, seen: Sequence[float], _: tuple[int, ...]) -> None:
    centre = (WIDTH / 2, HEIGHT / 2)
    # Upright is an angle of zero.
    tip = (centre[0] - 80 * seen[1], centre[1] - 80 * seen[0])
    pen.line((*centre, *tip), fill=_RED, width=8)
    pen.ellipse((centre[0] - 5, centre[1] - 5, centre[0] + 5, centre[1] + 5), fill=_INK)


def _mountain_car(pen: Any, seen: Sequence[float], _: tuple[int, ...]) -> None:
    low, high = -1.2, 0.6

    def place(position: float) -> tuple[float, float]:
        height = math.sin(3 * position) * 0.45 + 0.55
        return (position - low) / (high - low) * WIDTH, HEIGHT * (0.95 - 0.75 * height)

    pen.line([place(low + (high - low) * step / 60) for step in range(61)], fill=_GREY, width=2)
    goal = place(0.5)
    pen.line((*goal, goal[0], goal[1] - 25), fill=_BLUE, width=3)
    x, y = place(seen[0])
    pen.ellipse((x - 8, y - 16, x + 8, y), fill=_RED)


def _acrobot(pen: Any, seen: Sequence[float], _: tuple[int, ...]) -> None:
    first = math.atan2(seen[1], seen[0])
    second = first + math.atan2(seen[3], seen[2])
    centre = (WIDTH / 2, HEIGHT / 2)
    elbow = (centre[0] + 42 * math.sin(first), centre[1] + 42 * math.cos(first))
    tip = (elbow[0] + 42 * math.sin(second), elbow[1] + 42 * math.cos(second))
    pen.line((0, centre[1] - 42, WIDTH, centre[1] - 42), fill=_BLUE)
    pen.line((*centre, *elbow), fill=_INK, width=6)
    pen.line((*elbow, *tip), fill=_RED, width=6)


def _cells(pen: Any, rows: int, columns: int) -> tuple[float, float, float]:
    """A grid. Gives its left and upper end, and the size of a cell."""
    size = min((HEIGHT - 30) / rows, (WIDTH - 20) / columns)
    left, top = (WIDTH - columns * size) / 2, 24
    for row in range(rows):
        for column in range(columns):
            corner = (left + column * size, top + row * size)
            pen.rectangle((*corner, corner[0] + size, corner[1] + size), outline=_GREY)
    return left, top, size


def _dot(pen: Any, grid: tuple[float, float, float], row: int, column: int, colour: str) -> None:
    left, top, size = grid
    x, y = left + column * size, top + row * size
    pen.ellipse((x + size * 0.15, y + size * 0.15, x + size * 0.85, y + size * 0.85), fill=colour)


def _frozen_lake(pen: Any, seen: Sequence[float], _: tuple[int, ...]) -> None:
    side = math.isqrt(len(seen))
    grid = _cells(pen, side, side)
    _dot(pen, grid, side - 1, side - 1, _BLUE)
    state = max(range(len(seen)), key=seen.__getitem__)
    _dot(pen, grid, *divmod(state, side), _RED)


_TAXI_PLACES = ((0, 0), (0, 4), (4, 0), (4, 3))


def _taxi(pen: Any, seen: Sequence[float], _: tuple[int, ...]) -> None:
    state = max(range(len(seen)), key=seen.__getitem__)
    state, goal = divmod(state, 4)
    state, passenger = divmod(state, 5)
    grid = _cells(pen, 5, 5)
    _dot(pen, grid, *_TAXI_PLACES[goal], _GREY)
    if passenger < len(_TAXI_PLACES):
        _dot(pen, grid, *_TAXI_PLACES[passenger], _BLUE)
    _dot(pen, grid, *divmod(state, 5), _RED if passenger < len(_TAXI_PLACES) else _INK)


def _corridor(pen: Any, seen: Sequence[float], _: tuple[int, ...]) -> None:
    # How long it is, is not seen; a dozen places show that something moves.
    grid = _cells(pen, 1, 12)
    _dot(pen, grid, 0, int(seen[0]) % 12, _RED)


def _catch(pen: Any, seen: Sequence[float], shape: tuple[int, ...]) -> None:
    rows, columns = shape[0], shape[1]
    grid = _cells(pen, rows, columns)
    for at, value in enumerate(seen):
        if value > 0:
            row, column = divmod(at, columns)
            _dot(pen, grid, row, column, _BLUE if row == rows - 1 else _RED)


_ARTISTS: dict[str, Artist] = {
    "CartPole": _cart_pole,
    "Pendulum": _pendulum,
    "MountainCar": _mountain_car,
    "MountainCarContinuous": _mountain_car,
    "Acrobot": _acrobot,
    "FrozenLake": _frozen_lake,
    "FrozenLake8x8": _frozen_lake,
    "Taxi": _taxi,
    "Corridor": _corridor,
    "Catch": _catch,
}
