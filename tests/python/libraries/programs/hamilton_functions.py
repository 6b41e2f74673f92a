"""What `with_hamilton.py` makes a graph of: each function's arguments are other functions' results."""


def first(start: int) -> int:
    return start + 1


def second(start: int) -> int:
    return start * 10


def both(first: int, second: int) -> int:
    return first + second
