"""The loop of an experiment: starts trials where there is room, takes their results up, asks the brains what becomes of them.

One round takes up all that has come, writes it down, and only then lets the trials go on: whatever was decided is in the journal before anybody
acts on it.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray.exceptions import LocalRayletDiedError, RayError, RaySystemError
from eagleray.tune._live import Live
from eagleray.tune._slots import Slots
from eagleray.tune.error import JournalError, TuneError
from eagleray.tune.experiment.trial import Trial
from eagleray.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from eagleray.tune._plan import Plan
    from eagleray.tune._record import Record
    from eagleray.tune.execution.placement_groups import PlacementGroupFactory

#: Results of one trial that are taken up in one round.
_BATCH = 256
#: How far a trial may be ahead where no result decides anything.
_AHEAD = 64
#: A round waits for so long at most: clocks, screens and budgets are looked at.
_ROUND_S = 0.5

#: What a scheduler may say of a result.
_DECISIONS = (TrialScheduler.CONTINUE, TrialScheduler.PAUSE, TrialScheduler.STOP, TrialScheduler.NOOP)


class Engine:
    """One experiment while it runs. It is the `controller` that schedulers see."""

    #: What schedulers ask for is done.
    is_replaying = False

    def __init__(self, plan: Plan, record: Record, trials: list[Trial]) -> None:
        self.plan = plan
        self.trials = trials
        self._record = record
        self._scheduler = plan.scheduler
        self._slots = Slots(plan.trainable, reuse=plan.reuse)
        self._live: dict[str, Live] = {}
        #: Trials that wait for room, in order.
        self._pending: list[Trial] = [trial for trial in trials if trial.status == Trial.PENDING]
        self._factories: dict[str, PlacementGroupFactory] = {}
        self._started_at = time.time()
        self._is_ending = self._is_interrupted = False
        self._raised: BaseException | None = None
        self._is_checked = self._is_waiting_said = False
        self._iteration = 0
        is_free = (
            type(plan.scheduler) is FIFOScheduler
            and plan.stopper is None
            and plan.time_budget_s is None
            and not plan.is_class
        )
        self._ahead = _AHEAD if is_free else 1

    # The loop.

    def run(self) -> None:
        """Runs the experiment to its end."""
        try:
            self._record.begin(self)
            while not self._is_done():
                if self._is_interrupted:
                    self._drop_all()
                    break
                self._iteration += 1
                self._record.round_begins(self._iteration, self.trials)
                self._start_trials()
                self._take_round()
                self._record.round_ends(self._iteration, self.trials)
                self._watch_clock()
                if self._raised is not None:
                    raise self._raised
        except (RaySystemError, LocalRayletDiedError) as error:
            raise self._node_gone() from error
        finally:
            for live in list(self._live.values()):
                live.abandon()
            try:
                self._end_record()
            finally:
                self._slots.close(is_class=self.plan.is_class)

    def _end_record(self) -> None:
        broken = sys.exc_info()[1]
        try:
            self._record.end(self.trials, self._state())
        except (OSError, JournalError) as error:
            if not isinstance(broken, OSError | JournalError):
                raise
            # What broke the experiment off, as a full disk, does so here too. It is told once, the journal's word before that of other files.
            if isinstance(error, JournalError) and isinstance(broken, OSError):
                raise error from None

    def _check_node(self) -> None:
        """A trial that died with its node has not failed: it goes on when the experiment does."""
        try:
            eagleray.cluster_resources()
        except (RaySystemError, LocalRayletDiedError) as error:
            raise self._node_gone() from error

    def _node_gone(self) -> TuneError:
        where = self.plan.folder
        return TuneError(
            f"the node that the experiment ran on is gone. What its trials had reported is in {where}: start another node and go on "
            f"by Tuner.restore({str(where)!r}, trainable)."
        )

    def _state(self) -> str:
        if self._is_interrupted:
            return "interrupted"
        return "done" if sys.exc_info()[0] is None else "failed"

    def _is_done(self) -> bool:
        if self._live:
            return False
        if self._is_ending:
            return True
        return not self._pending and not self._paused() and self.plan.search_alg.is_finished()

    def _paused(self) -> bool:
        return any(trial.status == Trial.PAUSED for trial in self.trials)

    def stop_all(self) -> None:
        """Ends the experiment: what runs is stopped, nothing more is started."""
        self._is_ending = True
        for trial in self.get_live_trials():
            self._finish(trial, Trial.TERMINATED)

    def interrupt(self) -> None:
        """Stops after this round without ending trials: they go on when the experiment is resumed. Signal handlers may call it."""
        self._is_interrupted = True

    def _drop_all(self) -> None:
        for live in self._live.values():
            live.abandon()
            self._slots.end(live.slot)
        self._live.clear()

    def _watch_clock(self) -> None:
        self._slots.end_overdue()
        budget = self.plan.time_budget_s
        is_over = budget is not None and time.time() - self._started_at >= budget
        if is_over or (self.plan.stopper is not None and self.plan.stopper.stop_all()):
            self.stop_all()

    # Starting.

    def _start_trials(self) -> None:
        launched: list[Live] = []
        self._choose_trials(launched)
        if launched:
            # A trial stands in the journal before it leaves anything behind.
            self._record.flush()
        for live in launched:
            if self._live.get(live.trial.trial_id) is live:
                live.start()

    def _choose_trials(self, launched: list[Live]) -> None:
        while not self._is_ending:
            limit = self.plan.max_concurrent
            # One that was told to stop and has not yet is still under way.
            if limit and len(self._live) + len(self._slots.winding()) >= limit:
                return
            trial = self._next_trial()
            if trial is None:
                if not self._live and not self._slots.winding():
                    self._check_stuck()
                return
            factory = self._factory(trial)
            self._slots.check(factory)
            if not self._slots.has_room(factory):
                if not self._live and not self._slots.winding():
                    self._say_waits(factory)
                return
            launched.append(self._launch(trial, factory))

    def _say_waits(self, factory: PlacementGroupFactory) -> None:
        """There was room once: the node that had it is gone."""
        if not self._is_waiting_said:
            self._is_waiting_said = True
            needs = ", ".join(f"{amount:g} {name}" for name, amount in factory.required_resources.items())
            self._record.warn(f"nothing runs, and no node has {needs} for the next trial any more: it waits for one.")

    def _next_trial(self) -> Trial | None:
        """The trial that is to run next, made if need be: it stays pending until there is room."""
        if not self._pending:
            self._make_trial()
        chosen: Trial | None = self._scheduler.choose_trial_to_run(self)
        if chosen is not None and chosen.status in (Trial.PENDING, Trial.PAUSED) and chosen.trial_id not in self._live:
            return chosen
        return None

    def _make_trial(self) -> None:
        search = self.plan.search_alg
        if search.is_finished():
            return
        number = len(self.trials)
        trial_id = self._record.trial_id(number)
        suggestion = search.next_config(trial_id)
        if suggestion is None:
            return
        trial = self._record.new_trial(number, trial_id, suggestion)
        self._factory(trial)
        self.trials.append(trial)
        self._pending.append(trial)
        self._scheduler.on_trial_add(self, trial)
        self._record.added(trial, suggestion.trace)

    def _check_stuck(self) -> None:
        """Nothing runs and nothing can be started: that is an error of a plug-in, and said instead of waiting for ever."""
        waiting = [trial for trial in self.trials if trial.status in (Trial.PENDING, Trial.PAUSED)]
        if self.plan.search_alg.is_finished() and not waiting:
            return
        if waiting:
            for trial in waiting:
                if trial.status == Trial.PAUSED:
                    # As Ray: a scheduler that has nothing more to say about its paused trials has ended them.
                    self._end(trial, Trial.TERMINATED)
            if any(trial.status == Trial.PENDING for trial in waiting):
                raise TuneError(
                    f"{type(self._scheduler).__name__} chooses none of {len(waiting)} waiting trials and nothing runs"
                )
            return
        search = self.plan.search_alg
        name = type(getattr(search, "searcher", search)).__name__
        raise TuneError(
            f"{name} proposes nothing although nothing runs and it is not finished: its `suggest` returns None until a trial ends, "
            "and there is none. When it has no more, it returns Searcher.FINISHED."
        )

    def _factory(self, trial: Trial) -> PlacementGroupFactory:
        factory = self._factories.get(trial.trial_id)
        if factory is None:
            factory = self._factories[trial.trial_id] = self.plan.resources(trial.config)
            trial.resources = factory.required_resources
        return factory

    def _launch(self, trial: Trial, factory: PlacementGroupFactory) -> Live:
        slot, is_used = self._slots.take(factory)
        if trial in self._pending:
            self._pending.remove(trial)
        spec = self._record.spec_of(trial, factory, self._ahead)
        live = Live(trial, slot, spec, is_class=self.plan.is_class, is_used=is_used)
        live.every = self.plan.checkpoint.checkpoint_frequency or 0
        self._live[trial.trial_id] = live
        self._set_status(trial, Trial.RUNNING)
        if trial.start_time is None:
            trial.start_time = time.time()
        return live

    # Taking up what came.

    def _take_round(self) -> None:
        waited: dict[Any, Live | Any] = {live.awaited: live for live in self._live.values()}
        for slot in self._slots.winding():
            waited[slot.winding] = slot
        if not waited:
            if not self._is_done():
                time.sleep(0.01)
            return
        awaited = list(waited)
        ready, _ = eagleray.wait(awaited, num_returns=1, timeout=_ROUND_S, fetch_local=False)
        if not ready:
            if not all(live.about for live in self._live.values()):
                self._slots.drop_idle()
            return
        if len(awaited) > 1:
            ready, _ = eagleray.wait(awaited, num_returns=len(awaited), timeout=0, fetch_local=False)
        going_on: list[Live] = []
        for one in ready:
            who = waited[one]
            if isinstance(who, Live):
                if self._live.get(who.trial.trial_id) is who and self._take_all(who):
                    going_on.append(who)
            else:
                self._wound_down(who)
        self._record.flush()
        for live in going_on:
            if self._live.get(live.trial.trial_id) is live:
                live.go_on(self._record.checkpoint_path)

    def _take_all(self, live: Live) -> bool:
        """Takes up all that a trial has said so far. Returns whether it waits for us."""
        for _ in range(_BATCH):
            if not self._take(live):
                return False
            if live.ahead == 1:
                return True
            # Nothing is decided by what it says, so it need not wait until that is written down.
            live.go_on(self._record.checkpoint_path)
            if not live.has_more():
                break
        return False

    def _wound_down(self, slot: Any) -> None:
        try:
            eagleray.get(slot.winding)
        except RayError:
            self._slots.end(slot)
        else:
            self._slots.give_back(slot)

    def _take(self, live: Live) -> bool:
        """Takes one thing up that a trial said. Returns whether it goes on."""
        trial = live.trial
        try:
            kind, body, kept = live.take()
        except RayError as error:
            self._check_node()
            self._slots.end(live.slot)
            if live.is_used and not live.about:
                # The process, which had been waiting for a trial, died before this one began.
                live.abandon()
                del self._live[trial.trial_id]
                self._requeue(trial)
                return False
            self._on_failure(live, error, str(error))
            return False
        except OSError as error:
            # What it sends finds no room.
            self._slots.end(live.slot)
            self._on_failure(live, error, str(error))
            return False
        if kind == "on the way":
            return True
        if kind == "result":
            return self._on_result(live, body, kept)
        if kind == "begin":
            live.about = body
            self._record.started(trial, body)
            return True
        if kind == "saved":
            self._record.checkpointed(trial, kept, trial.last_result, live.count)
            return True
        if kind == "error":
            if self.plan.is_class:
                live.slot.bring_left()
                self._slots.end(live.slot)
            else:
                live.release(self._slots)
            self._on_failure(live, body, kept)
            return False
        if kind == "cannot reset":
            self._slots.end(live.slot)
            del self._live[trial.trial_id]
            self._requeue(trial)
            return False
        # It has ended by itself.
        live.release(self._slots)
        del self._live[trial.trial_id]
        trial.last_result = (
            {**trial.last_result, "done": True} if trial.last_result else self._record.empty_result(live)
        )
        self._end(trial, Trial.TERMINATED)
        return False

    def _on_result(self, live: Live, metrics: dict[str, Any], kept: str | None) -> bool:
        trial = live.trial
        live.count += 1
        if not self._record.is_new(trial, live.count):
            if kept is not None:
                self._record.checkpointed(trial, kept, metrics, live.count, is_told_again=True)
            return True
        result = self._record.complete(live, metrics)
        if kept is not None:
            # It stands before its result: schedulers may ask for it when they hear of that.
            self._record.checkpointed(trial, kept, metrics, live.count, is_ahead=True)
        if not self._is_checked:
            self._check_metrics(result)
        trial.last_result = result
        stopper = self.plan.stopper
        is_decided = bool(result.get("done")) or (stopper is not None and stopper(trial.trial_id, result))
        # What it brings about stands behind it.
        self._record.taking(trial)
        if is_decided:
            decision = TrialScheduler.STOP
            result["done"] = True
        else:
            decision = self._scheduler.on_trial_result(self, trial, result)
            if decision not in _DECISIONS:
                raise TuneError(
                    f"{type(self._scheduler).__name__}.on_trial_result must return one of {', '.join(_DECISIONS)}; got {decision!r}"
                )
            if decision == TrialScheduler.STOP:
                result["done"] = True
            self.plan.search_alg.on_trial_result(trial.trial_id, result)
        self._record.result(live, metrics, result, is_decided=is_decided)
        is_save_wanted = trial.take_checkpoint_wish()
        if trial.trial_id not in self._live:
            return False
        if is_save_wanted and kept is None and not self._saves_at(decision):
            self.save_trial(trial)
        if decision == TrialScheduler.STOP:
            self._finish(trial, Trial.TERMINATED)
            return False
        if decision == TrialScheduler.PAUSE:
            self._pause(trial)
            return False
        return True

    def _saves_at(self, decision: str) -> bool:
        """Whether a class is saved by what was decided of it."""
        at_end = bool(self.plan.checkpoint.checkpoint_at_end)
        return decision == TrialScheduler.PAUSE or (decision == TrialScheduler.STOP and at_end)

    def _check_metrics(self, result: dict[str, Any]) -> None:
        self._is_checked = True
        self._record.check_metrics(result, self.plan, self._scheduler)

    # Ending, pausing, trying again.

    def _finish(self, trial: Trial, status: str) -> None:
        """Stops a running trial, or one that waits."""
        live = self._live.pop(trial.trial_id, None)
        if live is not None:
            if self.plan.is_class and self.plan.checkpoint.checkpoint_at_end:
                self._save(live)
            live.stop(self._slots)
        self._end(trial, status)

    def _end(self, trial: Trial, status: str) -> None:
        if trial in self._pending:
            self._pending.remove(trial)
        self._set_status(trial, status)
        result = trial.last_result or None
        if status == Trial.ERROR:
            self._scheduler.on_trial_error(self, trial)
            self.plan.search_alg.on_trial_complete(trial.trial_id, result, error=True)
        else:
            trial.error = None
            self._scheduler.on_trial_complete(self, trial, trial.last_result)
            self.plan.search_alg.on_trial_complete(trial.trial_id, result)
        self._record.ended(trial)

    def _on_failure(self, live: Live, error: BaseException, text: str) -> None:
        trial = live.trial
        self._live.pop(trial.trial_id, None)
        live.drop_half()
        trial.num_failures += 1
        trial.error = error
        most = self.plan.failure.max_failures
        is_final = 0 <= most < trial.num_failures
        self._record.failed(trial, error, text, is_final=is_final)
        if not is_final and not self._is_ending:
            self._requeue(trial)
            return
        self._end(trial, Trial.ERROR)
        if self.plan.failure.fail_fast:
            if self.plan.failure.fail_fast == "raise":
                self._raised = error
            self.stop_all()

    def _requeue(self, trial: Trial) -> None:
        self._set_status(trial, Trial.PENDING)
        if trial not in self._pending:
            self._pending.append(trial)

    def _set_status(self, trial: Trial, status: str) -> None:
        old, trial.status = trial.status, status
        if old != status:
            self._record.status(trial, old)

    def _save(self, live: Live) -> None:
        """Saves a class trial between two steps."""
        if not live.is_begun:
            # What it was to begin from is where it stands.
            return
        kind, body, kept = live.save(self._record.checkpoint_path(live.trial))
        if kind == "saved":
            self._record.checkpointed(live.trial, kept, live.trial.last_result, live.count)
        elif kind == "error":
            self._record.warn(f"trial {live.trial} could not be saved: {body}")

    # What schedulers ask for.

    def get_trials(self) -> list[Trial]:
        """All trials."""
        return self.trials

    def get_live_trials(self) -> list[Trial]:
        """Trials that have not ended."""
        return [trial for trial in self.trials if not trial.is_finished()]

    @property
    def search_alg(self) -> Any:
        """Who proposes configurations."""
        return self.plan.search_alg

    def has_resources_for_trial(self, trial: Trial) -> bool:
        """Whether it could start now."""
        return self._slots.has_room(self._factory(trial))

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:  # noqa: FBT001, FBT002
        """Takes a trial off its process; it goes on from its checkpoint when the scheduler chooses it again."""
        if trial.trial_id in self._live:
            self._record.leaves(trial)
        self._pause(trial, should_checkpoint=should_checkpoint)

    def _pause(self, trial: Trial, *, should_checkpoint: bool = True) -> None:
        live = self._live.pop(trial.trial_id, None)
        if live is not None:
            if should_checkpoint and self.plan.is_class:
                self._save(live)
            live.stop(self._slots)
        if not trial.is_finished():
            self._set_status(trial, Trial.PAUSED)

    def unpause_trial(self, trial: Trial) -> None:
        """Lets a paused trial wait for room again."""
        if trial.status == Trial.PAUSED:
            self._requeue(trial)

    def stop_trial(self, trial: Trial) -> None:
        """Ends a trial for good."""
        if not trial.is_finished():
            self._finish(trial, Trial.TERMINATED)

    def save_trial(self, trial: Trial) -> None:
        """Makes a checkpoint of a trial now; of a function, the latest that it reported stands."""
        live = self._live.get(trial.trial_id)
        if live is not None and self.plan.is_class:
            self._save(live)

    def exploit(self, trial: Trial, config: dict[str, Any], donor: Trial) -> None:
        """The trial goes on from another one's checkpoint, with this configuration."""
        live = self._live.pop(trial.trial_id, None)
        if live is not None:
            self._record.leaves(trial)
            live.stop(self._slots)
        trial.config = config
        self._factories.pop(trial.trial_id, None)
        self._record.exploited(trial, donor)
        if not trial.is_finished():
            self._requeue(trial)

    def update_trial_resources(self, trial: Trial, resources: Any) -> None:
        """The trial runs with other resources when it is started next."""
        from eagleray.tune.execution.placement_groups import as_factory

        factory = as_factory(resources)
        self._slots.check(factory)
        self._factories[trial.trial_id] = factory
        trial.resources = factory.required_resources
