"""`_num_objects_per_yield`: a generator each of whose yields gives several values, which become objects of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

NAME = "_num_objects_per_yield"


class Grouped:
    """A generator function whose groups of values come out one by one."""

    def __init__(self, function: Any, size: int) -> None:
        """Take groups of this size from what `function` yields."""
        self.function = function
        self.size = size

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Begin to generate."""
        groups = self.function(*args, **kwargs)
        return self._each_async(groups) if hasattr(groups, "__anext__") else self._each(groups)

    def _each(self, groups: Any) -> Generator[Any]:
        for group in groups:
            yield from self._checked(group)

    async def _each_async(self, groups: Any) -> AsyncGenerator[Any]:
        async for group in groups:
            for value in self._checked(group):
                yield value

    def _checked(self, group: Any) -> Any:
        if not isinstance(group, (tuple, list)):
            raise ValueError(
                f"Streaming generator tasks with {NAME}={self.size} must yield a tuple or list of length {self.size}."
            )
        if len(group) != self.size:
            raise ValueError(f"Streaming generator task yielded {len(group)} objects, but {NAME}={self.size}.")
        return group


def grouped(function: Any, options: dict[str, Any]) -> Any:
    """Give the function as its options want it to yield."""
    size = options.get(NAME) or 1
    return function if size == 1 else Grouped(function, size)


def check_unchanged(own: Any, overrides: dict[str, Any], *, of: str, decorator: str) -> None:
    """Refuse to let single calls change how many values a yield gives: whoever runs the function has it from its decorator."""
    given = overrides.get(NAME)
    if given is not None and given != (own or 1):
        raise ValueError(f"{NAME} cannot be overridden per {of} call. Use @{decorator}({NAME}=...) instead.")
