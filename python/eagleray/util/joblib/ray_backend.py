"""The backend that joblib calls. Its processes are those of a `multiprocessing.Pool` of ours."""

from __future__ import annotations

import sys
from typing import Any

from joblib._parallel_backends import AutoBatchingMixin, FallbackToBackend, ParallelBackendBase, SequentialBackend

import eagleray
from eagleray.util.multiprocessing.pool import Pool
from eagleray.util.multiprocessing.results import Failed

#: What is larger is stored once for all calls that get it, instead of being written into each of them.
_LARGE_BYTES = 64 * 1024


class RayBackend(AutoBatchingMixin, ParallelBackendBase):
    """Runs what `joblib.Parallel` is given in processes of the session; starts one if there is none.

    `ray_remote_args` are options of the actors behind it. They are taken from `Parallel` too.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    default_n_jobs = -1

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Keep the options until there is something to run."""
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **options)
        self.ray_remote_args = ray_remote_args
        self._pool: Pool | None = None
        self._stored: dict[int, tuple[Any, Any]] = {}

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Say how many calls run at once; below zero: all CPUs of the session but so many, as joblib counts."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        return max(1, _cpus() + 1 + n_jobs)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,
        require: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        **_memmapping: Any,
    ) -> int:
        """Start the processes. What joblib says about mapping arrays into memory is not needed: values are shared here."""
        del prefer, require
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        self._pool = Pool(n_jobs, ray_remote_args=self._actor_options(ray_remote_args))
        return n_jobs

    def submit(self, func: Any, callback: Any = None) -> Any:
        """Run a batch of calls; the callback gets the future of its results."""
        assert self._pool is not None
        future = self._pool._submit(_Batch(*self._shared(func)), [((), {})]).future()
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit

    def retrieve_result_callback(self, out: Any) -> Any:
        """Give what the calls of a batch returned, or raise what one of them raised."""
        (value,) = out.result()
        if isinstance(value, Failed):
            raise value.error
        return value

    def stop_call(self) -> None:
        """Let go of the arguments that were stored for the calls of this `Parallel`."""
        self._stored.clear()

    def terminate(self) -> None:
        """End the processes."""
        self._stored.clear()
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:  # noqa: FBT001, FBT002 - as joblib has it
        """End the processes with what they do; start new ones if more is to come."""
        self.terminate()
        if ensure_ready:
            self.configure(self.parallel.n_jobs, self.parallel, **self.parallel._backend_kwargs)

    def _actor_options(self, given: dict[str, Any] | None) -> dict[str, Any]:
        options = dict((given if given is not None else self.ray_remote_args) or {})
        if self.inner_max_num_threads is not None:
            count = str(self.inner_max_num_threads)
            env = dict(options.get("runtime_env") or {})
            env["env_vars"] = {**dict.fromkeys(self.MAX_NUM_THREADS_VARS, count), **(env.get("env_vars") or {})}
            options["runtime_env"] = env
        return options

    def _shared(self, batch: Any) -> tuple[Any, list[Any]]:
        """Put a batch's large arguments where all processes find them."""
        items = getattr(batch, "items", None)
        if items is None:
            return batch, []
        stored = [
            (
                function,
                tuple(self._stored_once(value) for value in args),
                {name: self._stored_once(value) for name, value in kwargs.items()},
            )
            for function, args, kwargs in items
        ]
        batch.items = []
        return batch, stored

    def _stored_once(self, value: Any) -> Any:
        if not _is_large(value):
            return value
        known = self._stored.get(id(value))
        if known is None:
            # The value is kept beside its ref, so that no other gets its id.
            known = self._stored[id(value)] = (value, _Stored(eagleray.put(value)))
        return known[1]


class _Stored:
    """Stands for an argument that lies in the store. A ref of the user's own is not one, and stays a ref."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref


class _Batch:
    """A batch of joblib's, and the calls that it consists of."""

    def __init__(self, batch: Any, items: list[Any]) -> None:
        self._batch = batch
        self._items = items

    def __call__(self) -> Any:
        if self._items:
            self._batch.items = [
                (function, [_loaded(value) for value in args], {name: _loaded(value) for name, value in kwargs.items()})
                for function, args, kwargs in self._items
            ]
        return self._batch()


def _loaded(value: Any) -> Any:
    return eagleray.get(value.ref) if isinstance(value, _Stored) else value


def _is_large(value: Any) -> bool:
    # Sparse matrices keep their numbers one step further in.
    for owner in (value, getattr(value, "data", None)):
        size = getattr(owner, "nbytes", None)
        if isinstance(size, int) and size >= _LARGE_BYTES:
            return True
    try:
        return sys.getsizeof(value) >= _LARGE_BYTES
    except Exception:  # a class may have its own opinion of its size
        return False


def _cpus() -> int:
    if not eagleray.is_initialized():
        eagleray.init()
    return max(1, int(eagleray.cluster_resources().get("CPU", 1)))
