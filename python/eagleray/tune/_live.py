"""A trial while it runs: how it is started, read, let go on and stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import eagleray
from eagleray.exceptions import RayError
from eagleray.tune._away import PIECE_BYTES, Parcel
from eagleray.tune._pieces import Arriving, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eagleray.tune._pieces import Piece
    from eagleray.tune._session import TrialSpec
    from eagleray.tune._slots import Slot, Slots
    from eagleray.tune.experiment.trial import Trial


_ON_THE_WAY = ("on the way", None, None)


class Live:
    """A function's results are the items of one call; a class is called once for each step.

    Where its process does not see the experiment's folder, checkpoints come and go in pieces. A function, whose process is busy, sends them ahead of
    the result; of a class, whose process then has nothing to do, each piece is asked for.
    """

    def __init__(self, trial: Trial, slot: Slot, spec: TrialSpec, *, is_class: bool, is_used: bool) -> None:
        self.trial = trial
        self.slot = slot
        self.spec = spec
        self.is_class = is_class
        self.is_used = is_used
        #: What its process says of itself, and what else each of its results carries.
        self.about: dict[str, Any] = {}
        self.static: dict[str, Any] | None = None
        #: A class makes a checkpoint after so many steps.
        self.every = 0
        #: How many results a function may be ahead of what was decided: more than one only where nothing is decided by them.
        self.ahead = spec.ahead
        #: What is waited for: the call's generator, or the step's ref.
        self.awaited: Any = None
        #: How many results it has made, over all restarts: what it says of itself may be counted otherwise.
        self.count = spec.iteration
        self._steps = spec.iteration
        #: Whether its process was told to begin, and whether what is waited for is a function's generator.
        self.is_begun = self._is_streaming = False
        #: What is left to send of the checkpoint that it goes on from.
        self._sending: Iterator[Piece] | None = None
        #: The checkpoint that is coming, and the result of a class that waits for it.
        self._arriving: Arriving | None = None
        self._result: dict[str, Any] = {}
        self._parcel: Parcel | None = None
        self._is_here = False
        #: Whether what was waited for was taken, and nothing else asked for yet.
        self._is_read = False

    def start(self) -> None:
        """Begins the trial on its process."""
        self.slot.trial_path = self.spec.path
        if self.spec.checkpoint is not None and not self.slot.sees_storage:
            self.awaited = self.slot.actor.expect.remote(self.spec)
        else:
            self._begin()

    def _begin(self) -> None:
        actor = self.slot.actor
        self.is_begun = True
        if self.is_class:
            self.awaited = actor.build.remote(self.spec, reset=self.is_used)
        else:
            options = {"num_returns": "streaming", "_generator_backpressure_num_objects": self.ahead}
            self.awaited = actor.run.options(**options).remote(self.spec)
            self._is_streaming = True

    def take(self) -> tuple[str, Any, Any]:
        """What the trial said; "on the way" is a piece of what it has to say. It waits until `go_on`."""
        self._is_read = True
        if self._is_here:
            return self._whole()
        said: tuple[str, Any, Any] = eagleray.get(self.awaited._front() if self._is_streaming else self.awaited)
        kind, body, kept = said
        if kind == "received":
            if body and self._sending is None:
                self._sending = pack(str(self.spec.checkpoint), PIECE_BYTES)
            return _ON_THE_WAY
        if kind == "piece":
            is_last = self._take_piece(body, kept)
            return self._whole() if is_last else _ON_THE_WAY
        if kind == "begin":
            self.slot.sees_storage = not kept
        elif isinstance(kept, Parcel):
            self._result, self._parcel = body, kept
            return _ON_THE_WAY
        elif kept is not None and self._arriving is not None:
            self._arrived()
        return said

    def _take_piece(self, piece: Piece | None, target: str | None) -> bool:
        if piece is None:
            self._arrived()
            self._is_here = True
            return True
        if self._arriving is None:
            self._arriving = Arriving(str(target) if self._parcel is None else self._parcel.target)
        self._arriving.take(piece)
        return False

    def _arrived(self) -> None:
        arriving, self._arriving = self._arriving, None
        assert arriving is not None
        arriving.finish()

    def _whole(self) -> tuple[str, Any, Any]:
        """The result of a class whose checkpoint has come."""
        assert self._parcel is not None
        said = ("result", self._result, self._parcel.target)
        self._parcel, self._is_here = None, False
        return said

    def has_more(self) -> bool:
        """Whether it has said something more already."""
        return self.ahead > 1 and self._is_streaming and self.awaited.next_ready()

    def go_on(self, checkpoint: Callable[[Trial], str]) -> None:
        """Lets it do the next thing."""
        self._is_read = False
        if self._is_streaming:
            next(self.awaited)
        elif not self.is_begun:
            piece = None if self._sending is None else next(self._sending, None)
            if piece is None:
                self._begin()
            else:
                self.awaited = self.slot.actor.receive.remote(piece)
        elif self._is_here:
            # What is waited for was ready, and is so still.
            return
        elif self._parcel is not None:
            self.awaited = self.slot.actor.piece.remote(self._parcel.ticket)
        else:
            self._steps += 1
            is_due = self.every > 0 and self._steps % self.every == 0
            self.awaited = self.slot.actor.step.remote(checkpoint(self.trial), is_due=is_due)

    def save(self, path: str) -> tuple[str, Any, Any]:
        """Saves a class between two steps."""
        try:
            if self._parcel is None:
                kind, body, kept = eagleray.get(self.slot.actor.save.remote(path))
                return (kind, body, self._fetch(kept) if isinstance(kept, Parcel) else kept)
            # It has not taken another step since: the checkpoint that is on the way is what is asked for.
            self._bring(self._parcel)
            return ("saved", None, self._parcel.target)
        except (RayError, OSError) as error:
            return ("error", error, str(error))

    def _bring(self, parcel: Parcel) -> None:
        """What is on the way comes at once."""
        while not self._is_here:
            if self._is_read:
                self.awaited = self.slot.actor.piece.remote(parcel.ticket)
            self._is_read = True
            self._take_piece(_piece(self.awaited), None)

    def _fetch(self, parcel: Parcel) -> str:
        arriving = Arriving(parcel.target)
        try:
            while (piece := _piece(self.slot.actor.piece.remote(parcel.ticket))) is not None:
                arriving.take(piece)
            arriving.finish()
        except BaseException:
            arriving.drop()
            raise
        return parcel.target

    def stop(self, slots: Slots) -> None:
        """Nothing more of it is wanted. The process is free as soon as it has noticed."""
        self.drop_half()
        if self.awaited is None:
            slots.give_back(self.slot)
            return
        if self._is_streaming:
            # Whoever reads no more lets `report` raise.
            ended = self.awaited.completed()
        elif not self.is_class:
            ended = self.awaited
        elif slots.reuses:
            ended = self.slot.actor.end.remote()
        else:
            ended = self.slot.actor.drop.remote()
        self.awaited = None
        self.slot.wind_down(ended)

    def release(self, slots: Slots) -> None:
        """It has ended by itself."""
        if self._is_streaming:
            next(self.awaited, None)
        self.awaited = None
        slots.give_back(self.slot)

    def abandon(self) -> None:
        """The experiment ends without it."""
        self.awaited = None
        self.drop_half()

    def drop_half(self) -> None:
        """What has come of a checkpoint is of no use without the rest."""
        arriving, self._arriving = self._arriving, None
        if arriving is not None:
            arriving.drop()


def _piece(ref: Any) -> Piece | None:
    kind, piece, _ = eagleray.get(ref)
    if kind == "error":
        raise OSError(f"the checkpoint cannot be read: {piece}")
    return piece  # type: ignore[no-any-return]
