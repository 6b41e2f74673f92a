"""All runners of an algorithm: one in its process, or actors, some of which may fail.

What happens then is configured: a runner that fails is replaced (and given the weights again), or left out, or the failure is raised.
"""

from __future__ import annotations

import contextlib
import gc
import logging
from typing import TYPE_CHECKING, Any

import eagleray
from eagleray import cloudpickle
from eagleray.exceptions import RayError, RayTaskError
from eagleray.rllib.env._remote import NoAnswerError, Remote
from eagleray.rllib.env._starting import RunnerActor, has_process
from eagleray.rllib.env._worker import LocalWorker
from eagleray.rllib.env.env_runner import EnvRunner, Weights
from eagleray.rllib.utils.error import EnvError
from eagleray.tune import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from eagleray.rllib.algorithms.algorithm import Algorithm
    from eagleray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from eagleray.rllib.env._samplers import Sample
    from eagleray.rllib.env.env_runner import PolicySpaces, RunnerMetrics

_logger = logging.getLogger("eagleray.rllib")

#: A runner that gave no answer for so many times `sample_timeout_s` has failed.
_PATIENCE = 2
#: Runners of which none has ever given a sample, and that raise or end so often in a row, will not give one: their code is wrong. So is that of
#: runners that hang so often in a row, whatever others do: each costs minutes.
_FIRST_TRIES = 3
#: Runners that are not there by then are waited for, with a word about it. One that takes no longer to make its environments never hangs.
_START_S = 10.0
#: Those that are not there by then may wait for cores that only garbage holds.
_SOON_S = 1.0


class EnvRunnerGroup:
    """The runners of one configuration."""

    def __init__(
        self, config: AlgorithmConfig, *, on_recreated: Callable[[EnvRunnerGroup, list[int]], None] | None = None
    ) -> None:
        self.config = config
        self._on_recreated = on_recreated
        self._known = registry.known_envs()
        self._weights: Weights | None = None
        self._weights_ref: Any = None
        self.num_restarts = 0
        self._spaces: dict[str, PolicySpaces] = {}
        #: Whether any runner has ever done what it was asked for.
        self._has_sampled = False
        self._local: EnvRunner | None = None
        self._worker: LocalWorker | None = None
        self._remotes: list[Remote] = []
        if config.num_env_runners == 0:
            self._local = EnvRunner(config, 0, self._known)
            return
        from eagleray.rllib.utils.resources import runner_cpus

        self._config_ref = eagleray.put((config, self._known))
        self._class = eagleray.remote(RunnerActor).options(
            num_cpus=runner_cpus(config),
            num_gpus=config.num_gpus_per_env_runner,
            resources=dict(config.custom_resources_per_env_runner),
        )
        self._remotes = [Remote(index, self._make(index)) for index in range(1, config.num_env_runners + 1)]
        if config.validate_env_runners_after_construction:
            try:
                self._await()
            except BaseException:
                self.stop()
                raise

    def _await(self) -> None:
        """Waits until all runners are there, and says so if that takes long."""
        answers = [remote.actor.ping.remote() for remote in self._remotes]
        _, rest = eagleray.wait(answers, num_returns=len(answers), timeout=_SOON_S, fetch_local=False)
        if rest:
            # Algorithms that nobody has stopped, and nobody can reach any more, hold their cores until they are collected.
            gc.collect()
            _, rest = eagleray.wait(answers, num_returns=len(answers), timeout=_START_S, fetch_local=False)
        if rest:
            _logger.warning(
                "%d of %d runners have not started in %g s; free are %s. Others may hold the cores: another algorithm that was not stopped?",
                len(rest),
                len(answers),
                _START_S,
                eagleray.available_resources(),
            )
        try:
            for remote, answer in zip(list(self._remotes), answers, strict=True):
                self._first_answer(remote, answer, lambda actor: actor.ping.remote())
        except BaseException:
            # The others mostly say the same: once is enough.
            _read(answers)
            raise

    def _first_answer(self, remote: Remote, ref: Any, ask: Callable[[Any], Any]) -> Any:
        """What a runner answers that may still be at its environments' constructors, or the one in its place if it hangs there.

        None: it is left out.
        """
        limit = self.config.sample_timeout_s
        timeout = None if limit is None else max(limit, _START_S)
        while not eagleray.wait([ref], timeout=timeout, fetch_local=False)[0]:
            if not has_process(remote.actor):
                continue
            asked = remote.actor
            self._on_silence(remote, timeout)
            if remote not in self._remotes:
                return None
            if remote.actor is not asked:
                ref = ask(remote.actor)
        remote.waited = 0
        return _get_own(ref)

    def _make(self, index: int, *, recreated: bool = False) -> Any:
        is_asked = self.config.validate_env_runners_after_construction and not recreated
        return self._class.remote(self._config_ref, index, recreated, is_asked)

    # Sampling.

    def sample(self, **how: Any) -> list[tuple[Sample, RunnerMetrics]]:
        """One sample of each runner, of those that did not fail."""
        if self._local is not None:
            return [self._local.sample_and_metrics(**how)]
        return self.gather(self.ask(**how))

    def sample_shared(self, unit: str, amount: int, **how: Any) -> list[tuple[Sample, RunnerMetrics]]:
        """Samples so much of `unit`, shared out over all runners."""
        if self._local is not None:
            return self.sample(**{unit: amount}, **how)
        count = len(self._present())
        whole, rest = divmod(amount, count)
        shares = [{unit: whole + (number < rest)} for number in range(count)]
        return self.gather(self.ask(shares, **how))

    def ask(self, each: list[dict[str, Any]] | None = None, **common: Any) -> list[tuple[Remote, Any]]:
        """Asks every runner for a sample, and waits for none. `each` says what is asked of each of them, in turn."""
        asked = []
        for number, remote in enumerate(self._present()):
            how = common if each is None else common | each[number % len(each)]
            ref = remote.pending if remote.pending is not None else remote.actor.sample_and_metrics.remote(**how)
            remote.pending = ref
            asked.append((remote, ref))
        return asked

    def gather(self, asked: list[tuple[Remote, Any]], *, at_least_one: bool = False) -> list[Any]:
        """Waits for what was asked for: all of it, or what is there once one is."""
        timeout = self.config.sample_timeout_s
        refs = [ref for _, ref in asked]
        count = 1 if at_least_one else len(refs)
        ready, _ = eagleray.wait(refs, num_returns=min(count, len(refs)), timeout=timeout, fetch_local=False)
        if at_least_one:
            ready, _ = eagleray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        found = []
        for remote, ref in asked:
            if ref in ready:
                remote.pending, remote.waited = None, 0
                try:
                    found.append(_get(ref))
                    remote.failures_in_a_row = 0
                    self._has_sampled = True
                except Exception as error:
                    self._on_failure(remote, error)
            elif not at_least_one or not ready:
                self._on_silence(remote, timeout)
        return found

    def sample_async(self, **how: Any) -> list[tuple[Sample, RunnerMetrics]]:
        """What is there once a runner has an answer. The others go on; those that answered are asked again next time."""
        if self._local is not None:
            return [self._local.sample_and_metrics(**how)]
        return self.gather(self.ask(**how), at_least_one=True)

    def map(self, calls: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """Calls methods, shared out over the runners. A call whose runner failed has None for a result."""
        if self._local is not None:
            return [getattr(self._local, name)(*args) for name, args in calls]
        sent = []
        present = self._present()
        for number, (name, args) in enumerate(calls):
            remote = present[number % len(present)]
            sent.append((remote, getattr(remote.actor, name).remote(*args)))
        found: list[Any] = []
        failed: set[int] = set()
        for remote, ref in sent:
            try:
                found.append(_get(ref))
                self._has_sampled = True
            except Exception as error:
                found.append(None)
                if remote.index not in failed:
                    failed.add(remote.index)
                    self._on_failure(remote, error)
        return found

    # Faults.

    def _present(self) -> list[Remote]:
        """The runners, without those that were put in others' place and find no room: their node died, and the rest is full.

        Others go on without them; they take part once there is room again. If nobody is there, all are waited for.
        """
        for remote in self._remotes:
            if remote.is_awaited and remote.arrives() and remote.was_missed and self._weights_ref is not None:
                remote.actor.set_weights.remote(self._weights_ref)
        return [remote for remote in self._remotes if not remote.is_awaited] or self._remotes

    def _replace(self, remote: Remote) -> None:
        remote.replace(self._make(remote.index, recreated=True), _START_S)

    def _on_silence(self, remote: Remote, seconds: float | None) -> None:
        assert seconds is not None, "who waits without a limit is not silent"
        if remote.is_awaited and not has_process(remote.actor):
            # It waits for room.
            return
        remote.waited += 1
        _logger.warning(
            "runner %d gave no answer in %s s; it is left to go on. Raise `sample_timeout_s` if its environments take that long.",
            remote.index,
            seconds,
        )
        if remote.waited >= _PATIENCE:
            self._on_failure(remote, NoAnswerError(remote.index, seconds * remote.waited))

    def _on_failure(self, remote: Remote, error: Exception) -> None:
        config = self.config
        remote.failures_in_a_row += 1
        is_restarted = config.restart_failed_env_runners
        if not is_restarted and not config.ignore_env_runner_failures:
            raise error
        # What contradicts its spaces, or is not a number, does so in a new process too.
        if is_restarted and isinstance(error, EnvError):
            raise error
        _end(remote.actor)
        if not is_restarted:
            self._remotes.remove(remote)
            _logger.warning("runner %d failed and is left out: %s", remote.index, _brief(error))
            if not self._remotes:
                raise error
            return
        never_worked = not self._has_sampled and isinstance(error, RayError)
        is_hung = isinstance(error, NoAnswerError)
        tolerance = config.num_consecutive_env_runner_failures_tolerance
        if remote.failures_in_a_row > (min(tolerance, _FIRST_TRIES - 1) if never_worked or is_hung else tolerance):
            times = f"{remote.failures_in_a_row} times in a row"
            if isinstance(error, NoAnswerError):
                raise EnvError(
                    f"runner {remote.index} gave no sample of {_env_name(config.env)} in {error.seconds:g} s, and nor did those in its place: "
                    f"{remote.failures_in_a_row} in a row. Does it hang in `__init__`, `reset` or `step`? Raise `sample_timeout_s` if it only "
                    "takes long; with num_env_runners=0 Ctrl-C shows where it is."
                ) from error
            if never_worked and not isinstance(error, RayTaskError):
                raise EnvError(
                    f"the process of runner {remote.index} ended {times} before it gave a sample of {_env_name(config.env)}. "
                    f"Does the environment exit, or need more memory than there is? num_env_runners=0 shows it. {error}"
                ) from error
            error.add_note(f"runner {remote.index} failed {times} with {_env_name(config.env)}")
            raise error
        if self.num_restarts >= config.max_num_env_runner_restarts:
            error.add_note(
                f"runners were replaced {self.num_restarts} times, as often as `max_num_env_runner_restarts` allows"
            )
            raise error
        _logger.warning("runner %d failed and is replaced: %s", remote.index, _brief(error))
        self.num_restarts += 1
        self._replace(remote)
        if self._weights_ref is not None:
            remote.actor.set_weights.remote(self._weights_ref)
        if self._on_recreated is not None:
            self._on_recreated(self, [remote.index])

    # What else is asked of all.

    def spaces(self, config: AlgorithmConfig | None = None) -> dict[str, PolicySpaces]:
        """What each policy sees and does, or would with the policies of another configuration."""
        if self._local is not None:
            return self._local.get_spaces(config)
        if config is None and self._spaces:
            return self._spaces

        def ask(actor: Any) -> Any:
            return actor.get_spaces.remote(config)

        found: dict[str, PolicySpaces] | None = None
        while found is None:
            first = self._present()[0]
            found = self._first_answer(first, ask(first.actor), ask)
        if config is None:
            self._spaces = found
        return found

    def change_policies(self, config: AlgorithmConfig) -> None:
        """Lets all runners go on with the policies of this configuration. One that fails is replaced by one that has them."""
        self.config = config
        self._spaces = {}
        if self._worker is not None:
            self._worker.config = config
        if self._local is not None:
            self._local.change_policies(config)
            return
        # Weights of before name other policies: nobody must be given them any more.
        self._weights_ref = None
        self._config_ref = eagleray.put((config, self._known))
        present = self._present()
        for remote in self._remotes:
            if remote not in present:
                _end(remote.actor)
                self._replace(remote)
        asked = [(remote, remote.actor.change_policies.remote(config)) for remote in present]
        for remote, ref in asked:
            try:
                _get(ref)
            except Exception as error:
                self._on_failure(remote, error)

    def get_state(self) -> dict[str, bytes]:
        """What the next samples depend on beside the weights, where that can be written down: built-in environments.

        Of actors with their numbers, `"1/collector"`. One that gives no answer is left out: why shows at its next sample.
        """
        if self._local is not None:
            return self._local.get_state()
        # Environments in Python have no state to ask for, and whoever samples in them may take long to say so.
        if not self._remotes or any(one.observation_space is not None for one in self.spaces().values()):
            return {}
        asked = [(remote, remote.actor.get_state.remote()) for remote in self._present()]
        refs = [ref for _, ref in asked]
        ready, _ = eagleray.wait(refs, num_returns=len(refs), timeout=self.config.sample_timeout_s, fetch_local=False)
        found: dict[str, bytes] = {}
        for remote, ref in asked:
            if ref not in ready:
                _logger.warning("runner %d gave no answer: what it does now is not in this checkpoint", remote.index)
                continue
            try:
                state = dict(_get(ref))
                # The state is that behind this sample, which nobody has learned from yet.
                if remote.pending is not None:
                    state["pending"] = cloudpickle.dumps(_get(remote.pending))
            except RayError as error:
                _logger.warning("what runner %d does is not in this checkpoint: %s", remote.index, _brief(error))
                continue
            found |= {f"{remote.index}/{name}": data for name, data in state.items()}
        return found

    def set_state(self, state: dict[str, bytes]) -> None:
        """Lets each runner go on from its part of such a state. One that has none, or whose part does not fit, goes on as it is."""
        if self._local is not None:
            try:
                self._local.set_state({name: data for name, data in state.items() if "/" not in name})
            except ValueError as error:
                _say_unfit(0, error)
            return
        asked = []
        for remote in self._present():
            own = {name.partition("/")[2]: data for name, data in state.items() if name.startswith(f"{remote.index}/")}
            pending = own.pop("pending", None)
            # What was asked for before is of another time.
            remote.pending, remote.waited = None, 0
            if own:
                asked.append((remote, pending, remote.actor.set_state.remote(own)))
        for remote, pending, ref in asked:
            try:
                _get(ref)
                remote.pending = None if pending is None else eagleray.put(cloudpickle.loads(pending))
            except RayError as error:
                _say_unfit(remote.index, error)

    def sync_weights(self, weights: Weights | None = None, **_: Any) -> None:
        """Gives all runners these weights, or those that the learners have now; they are stored once."""
        if not isinstance(weights, Weights):
            if self._worker is None:
                raise ValueError("these runners belong to no algorithm: say which weights")
            weights = self._worker.weights_now()
        self._weights = weights
        if self._local is not None:
            self._local.set_weights(weights)
            return
        self._weights_ref = eagleray.put(weights)
        # Nobody waits for it: calls on an actor keep their order, and one that failed shows at the next sample.
        for remote in self._present():
            remote.actor.set_weights.remote(self._weights_ref)

    def foreach_env_runner(
        self,
        func: Any,
        *,
        local_env_runner: bool = True,
        kwargs: Any = None,
        remote_worker_ids: Iterable[int] | None = None,
        timeout_seconds: float | None = None,
        healthy_only: bool = True,
        mark_healthy: bool = False,
    ) -> list[Any]:
        """Calls a function, or a method by its name, with every runner: the one in this process first, then the actors.

        Where only actors sample, the first is what this process has of a runner: policies, no environment. Lists of functions or of `kwargs` have
        one for each. What is not there after `timeout_seconds` is left out. Runners that failed are replaced or gone, so all are healthy.
        """
        return self._ask_all(
            func, self.local_env_runner if local_env_runner else None, kwargs, remote_worker_ids, timeout_seconds
        )

    def foreach_worker(
        self,
        func: Any,
        *,
        local_worker: bool = True,
        local_env_runner: bool = True,
        kwargs: Any = None,
        remote_worker_ids: Iterable[int] | None = None,
        timeout_seconds: float | None = None,
        healthy_only: bool = True,
        mark_healthy: bool = False,
    ) -> list[Any]:
        """Does what `foreach_env_runner` does, as older programs say it: the first is `local_worker()`, whose policies are those that learn."""
        local = self.local_worker() if local_worker and local_env_runner else None
        return self._ask_all(func, local, kwargs, remote_worker_ids, timeout_seconds)

    def foreach_worker_with_index(self, func: Callable[[Any, int], Any], **how: Any) -> list[Any]:
        """Calls a function with every worker and its number; that of the local one is 0."""
        return self.foreach_worker(lambda worker: func(worker, worker.worker_index), **how)

    def foreach_worker_with_id(self, func: Callable[[int, Any], Any], **how: Any) -> list[Any]:
        """Calls a function with the number of every worker and the worker."""
        return self.foreach_worker(lambda worker: func(worker.worker_index, worker), **how)

    foreach_env_runner_with_id = foreach_worker_with_id

    def foreach_policy(self, func: Callable[..., Any]) -> list[Any]:
        """Calls a function with every policy of every worker, and its name. Gives one flat list."""
        return [one for found in self.foreach_worker(lambda worker: worker.foreach_policy(func)) for one in found]

    def foreach_policy_to_train(self, func: Callable[..., Any]) -> list[Any]:
        """The same with those that learn."""
        found = self.foreach_worker(lambda worker: worker.foreach_policy_to_train(func))
        return [one for part in found for one in part]

    def foreach_env(self, func: Callable[[Any], Any]) -> list[list[Any]]:
        """Calls a function with the environments of every worker; the local one has none where actors sample."""
        return self.foreach_worker(lambda worker: worker.foreach_env(func))

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[list[Any]]:
        """Calls a function with the environments of every worker, and what each was made with."""
        return self.foreach_worker(lambda worker: worker.foreach_env_with_context(func))

    def _ask_all(
        self, func: Any, local: Any, kwargs: Any, ids: Iterable[int] | None, timeout_s: float | None
    ) -> list[Any]:
        if self._local is None and not self.config.create_local_env_runner:
            local = None
        wanted = None if ids is None else set(ids)
        remotes = [remote for remote in self._present() if wanted is None or remote.index in wanted]
        count = len(remotes) + (local is not None)
        functions, given = _one_each(func, count, "functions"), _one_each(kwargs or {}, count, "kwargs")
        # Actors first: they work while this process does.
        asked = []
        for remote in reversed(remotes):
            function, how = functions.pop(), given.pop()
            actor = remote.actor
            is_name = isinstance(function, str)
            call = getattr(actor, function).remote(**how) if is_name else actor.apply.remote(function, **how)
            asked.append((remote, call))
        found = []
        if local is not None:
            function, how = functions.pop(), given.pop()
            found.append(getattr(local, function)(**how) if isinstance(function, str) else function(local, **how))
        refs = [ref for _, ref in asked]
        # Without a limit each is waited for by its `get`, which says why one failed.
        ready = (
            refs if timeout_s is None or not refs else eagleray.wait(refs, num_returns=len(refs), timeout=timeout_s)[0]
        )
        for remote, ref in reversed(asked):
            if ref not in ready:
                continue
            try:
                found.append(_get(ref))
            except RayTaskError:
                raise
            except RayError as error:
                self._on_failure(remote, error)
        return found

    def add_local_worker(self, algorithm: Algorithm) -> None:
        """Lets the algorithm's own process be asked as a worker, also where it does not sample."""
        self._worker = LocalWorker(algorithm, self._local)

    @property
    def runner(self) -> EnvRunner | None:
        """The runner that samples in this process, if one does."""
        return self._local

    @property
    def local_env_runner(self) -> EnvRunner | LocalWorker | None:
        """The runner in this process, or else what this process has of one: policies, no environment."""
        return self._local if self._local is not None else self._worker

    def local_worker(self) -> EnvRunner | LocalWorker | None:
        """The algorithm's own process: the older name. Its policies are those that learn."""
        return self._worker if self._worker is not None else self._local

    def remote_workers(self) -> list[Any]:
        """The actors."""
        return [remote.actor for remote in self._remotes]

    def num_remote_env_runners(self) -> int:
        """How many actors there are."""
        return len(self._remotes)

    def num_healthy_remote_workers(self) -> int:
        """How many actors there are that have not failed for good."""
        return len(self._remotes)

    num_remote_workers = num_remote_env_runners
    num_healthy_env_runners = num_healthy_remote_workers

    def healthy_env_runner_ids(self) -> list[int]:
        """Their numbers."""
        return [remote.index for remote in self._remotes]

    healthy_worker_ids = healthy_env_runner_ids

    def num_in_flight_async_reqs(self) -> int:
        """Samples that were asked for and are not there yet."""
        return sum(remote.pending is not None for remote in self._remotes)

    def num_remote_worker_restarts(self) -> int:
        """How often a runner was replaced."""
        return self.num_restarts

    def stop(self) -> None:
        """Ends all runners."""
        if self._local is not None:
            self._local.stop()
        for remote in self._remotes:
            _end(remote.actor)
        self._remotes = []


def _one_each(given: Any, count: int, what: str) -> list[Any]:
    """One for each worker: those that are listed, or the same for all."""
    if not isinstance(given, list):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"there are {len(given)} {what} for {count} workers; the local one counts")
    return list(given)


def _env_name(env: Any) -> str:
    """An environment as programs name it."""
    return f"the environment {getattr(env, '__qualname__', None) or repr(env)}"


def _say_unfit(index: int, error: Exception) -> None:
    _logger.warning("runner %d does not go on with the episodes of the checkpoint: %s", index, _brief(error))


def _brief(error: Exception) -> str:
    """An error without the stack, which only whoever raises it shows."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if isinstance(error, RayTaskError) and lines else str(error)


def _get(ref: Any) -> Any:
    return eagleray.get(ref)


def _get_own(ref: Any) -> Any:
    """What it is, or the same error as of a runner in this process; what the actor's stack was is its cause."""
    try:
        return _get(ref)
    except RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise


def _read(refs: list[Any]) -> None:
    """Reads what is there of these, whatever it is: nobody is to be told of it any more."""
    ready, _ = eagleray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
    for ref in ready:
        with contextlib.suppress(Exception):
            eagleray.get(ref)


def _end(actor: Any) -> None:
    try:
        eagleray.kill(actor)
    except RayError as error:
        _logger.debug("a runner was gone already: %s", error)
