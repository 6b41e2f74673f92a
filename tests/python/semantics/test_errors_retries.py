"""How often what runs when it fails: tasks (E4), actors (E6), actors that restart (E7)."""

import os
import time

import pytest

import eagleray as ray
from eagleray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    RayTaskError,
    UserCodeException,
    WorkerCrashedError,
)

pytestmark = [pytest.mark.usefixtures("shared_ray"), pytest.mark.two_nodes]


@pytest.fixture
def tries(tmp_path):
    """A file that counts attempts across processes: each attempt appends a line."""
    return Tries(tmp_path / "tries")


class Tries:
    """Counts attempts in a file, so that attempts of killed processes count too."""

    def __init__(self, path):
        self.path = str(path)

    def add(self, what="x"):
        """Notes an attempt; returns how many there are now."""
        with open(self.path, "a") as file:
            file.write(f"{what}\n")
        return len(self.all())

    def all(self):
        try:
            with open(self.path) as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def count(self):
        return len(self.all())


@ray.remote
def crash_until(tries, good):
    """Crashes until the attempt number `good`."""
    if tries.add() < good:
        os._exit(1)
    return "done"


@ray.remote
def raise_until(tries, good, error=ValueError):
    """Raises until the attempt number `good`."""
    if tries.add() < good:
        raise error("not yet")
    return "done"


def test_E4a_workers_death_is_retried_three_times_by_default(tries):
    assert ray.get(crash_until.remote(tries, 4)) == "done"
    assert tries.count() == 4


def test_E4b_users_exception_is_not_retried_by_default(tries):
    with pytest.raises(ValueError, match="not yet"):
        ray.get(raise_until.remote(tries, 2))
    assert tries.count() == 1


def test_E4c_retry_exceptions_retries_it(tries):
    assert ray.get(raise_until.options(retry_exceptions=True).remote(tries, 4)) == "done"
    assert tries.count() == 4


def test_E4c_E4h_and_gives_up_with_the_users_error(tries):
    with pytest.raises(ValueError, match="not yet") as info:
        ray.get(raise_until.options(retry_exceptions=True, max_retries=2).remote(tries, 99))
    assert isinstance(info.value, RayTaskError)
    assert tries.count() == 3


def test_E4d_a_list_retries_only_those_classes(tries, tmp_path):
    chosen = raise_until.options(retry_exceptions=[KeyError, OSError])
    assert ray.get(chosen.remote(tries, 3, ConnectionError)) == "done"
    assert tries.count() == 3
    other = Tries(tmp_path / "other")
    with pytest.raises(ValueError, match="not yet"):
        ray.get(chosen.remote(other, 3, ValueError))
    assert other.count() == 1


@pytest.mark.parametrize(("cause", "runs"), [(KeyError, 3), (ValueError, 1)])
def test_E4d_an_exception_of_a_library_is_judged_by_its_cause(tries, cause, runs):
    @ray.remote(retry_exceptions=[KeyError], max_retries=2)
    def run_user_code():
        tries.add()
        try:
            raise cause("inner")
        except Exception as error:
            raise UserCodeException("the user's function raised") from error

    with pytest.raises(UserCodeException):
        ray.get(run_user_code.remote())
    assert tries.count() == runs


def test_E4d_functions_of_one_name_have_filters_of_their_own(tmp_path):
    # A worker serves both, and the two share their name.
    def flaky(tries, error):
        if tries.add() < 2:
            raise error("not yet")
        return "done"

    one = ray.remote(retry_exceptions=[KeyError])(flaky)
    two = ray.remote(retry_exceptions=[OSError])(flaky)
    for number in range(4):
        assert ray.get(one.remote(Tries(tmp_path / f"a{number}"), KeyError)) == "done"
        assert ray.get(two.remote(Tries(tmp_path / f"b{number}"), OSError)) == "done"
        with pytest.raises(OSError, match="not yet"):
            ray.get(one.remote(Tries(tmp_path / f"c{number}"), OSError))
        with pytest.raises(KeyError, match="not yet"):
            ray.get(two.remote(Tries(tmp_path / f"d{number}"), KeyError))


def test_E4e_options_override_the_decorator(tries, tmp_path):
    @ray.remote(max_retries=0, retry_exceptions=True)
    def fail(tries, how):
        tries.add()
        if how == "crash":
            os._exit(1)
        raise ValueError("again")

    with pytest.raises(WorkerCrashedError, match="exit code 1"):
        ray.get(fail.options(max_retries=2).remote(tries, "crash"))
    assert tries.count() == 3
    other = Tries(tmp_path / "other")
    with pytest.raises(ValueError, match="again"):
        ray.get(fail.options(max_retries=5, retry_exceptions=False).remote(other, "raise"))
    assert other.count() == 1


@pytest.mark.parametrize("value", ["0", "1"])
def test_E4f_environment_sets_the_default(drivers, tmp_path, value):
    code = """
    ray.init(num_cpus=1)
    @ray.remote
    def crash(path):
        with open(path, "a") as file:
            file.write("x")
        os._exit(1)
    try:
        ray.get(crash.remote(sys.argv[1]))
    except ray.exceptions.WorkerCrashedError:
        print("crashed")
    """
    path = tmp_path / "runs"
    out, _ = drivers.run(code, path, env={"RAY_TASK_MAX_RETRIES": value})
    assert "crashed" in out
    assert len(path.read_text()) == int(value) + 1


def test_E4g_worker_crashed_error_when_retries_are_used_up(tries):
    with pytest.raises(WorkerCrashedError, match="exit code 1") as info:
        ray.get(crash_until.options(max_retries=1).remote(tries, 99))
    assert not isinstance(info.value, RayTaskError)
    assert "exit code 1" in str(info.value)


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_E4h_task_runs_exactly_retries_plus_one_times(tries, retries):
    with pytest.raises(WorkerCrashedError, match="exit code 1"):
        ray.get(crash_until.options(max_retries=retries).remote(tries, 99))
    assert tries.count() == retries + 1


def test_E4h_nested_task_runs_exactly_retries_plus_one_times(tries):
    @ray.remote(max_retries=0)
    def outer():
        return ray.get(crash_until.options(max_retries=2).remote(tries, 99))

    with pytest.raises(WorkerCrashedError, match="exit code 1"):
        ray.get(outer.remote())
    assert tries.count() == 3


def test_E4h_killed_workers_take_only_the_running_task_with_them(tries):
    # Calls that were queued behind the crashing one cost no retry.
    @ray.remote(max_retries=0)
    def work(number):
        if number == 5:
            os._exit(1)
        time.sleep(0.01)
        tries.add(number)
        return number

    refs = [work.remote(number) for number in range(40)]
    for number, ref in enumerate(refs):
        if number == 5:
            with pytest.raises(WorkerCrashedError, match="exit code 1"):
                ray.get(ref)
        else:
            assert ray.get(ref) == number
    assert sorted(tries.all(), key=int) == [str(number) for number in range(40) if number != 5]


@ray.remote
class Server:
    """Crashes, raises and counts as it is told."""

    def __init__(self, tries=None):
        if tries is not None:
            tries.add(f"init-{os.getpid()}")

    def pid(self):
        return os.getpid()

    def crash_until(self, tries, good):
        if tries.add() < good:
            os._exit(1)
        return "done"

    def raise_until(self, tries, good):
        if tries.add() < good:
            raise ValueError("not yet")
        return "done"

    def alternate(self, tries):
        """Raises on odd attempts, crashes on even ones."""
        if tries.add() % 2:
            raise ValueError("odd")
        os._exit(1)

    def note(self, tries, what):
        tries.add(what)
        return what


def crash(actor, *, is_last=False):
    """Ends the actor's process; returns when its callers know."""
    error, text = (ActorDiedError, "exit code 1") if is_last else (ActorUnavailableError, "The actor is restarting")
    with pytest.raises(error, match=text):
        ray.get(actor.__ray_call__.options(max_task_retries=0).remote(lambda _self: os._exit(1)))


def pid_after_restart(actor):
    """The new process's pid; calls without retries fail while the actor is on its way."""
    return ray.get(actor.pid.options(max_task_retries=-1).remote())


def test_E6a_max_restarts_counts_restarts():
    actor = Server.options(max_restarts=2).remote()
    pids = {ray.get(actor.pid.remote())}
    for _ in range(2):
        crash(actor)
        pids.add(pid_after_restart(actor))
    assert len(pids) == 3
    crash(actor, is_last=True)
    with pytest.raises(ActorDiedError, match="its worker process has died"):
        ray.get(actor.pid.remote())


def test_E6a_without_restarts_the_first_crash_is_the_last():
    actor = Server.remote()
    crash(actor, is_last=True)
    with pytest.raises(ActorDiedError, match="exit code 1"):
        ray.get(actor.pid.remote())


def test_E6b_max_task_retries_counts_retries_of_each_call(tries, tmp_path):
    actor = Server.options(max_restarts=-1, max_task_retries=2).remote()
    assert ray.get(actor.crash_until.remote(tries, 3)) == "done"
    assert tries.count() == 3
    # The next call has a budget of its own.
    other = Tries(tmp_path / "other")
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get(actor.crash_until.remote(other, 99))
    assert other.count() == 3


@pytest.mark.parametrize(
    ("method", "options", "runs"), [("plain", {}, 2), ("marked", {}, 3), ("marked", {"max_task_retries": 3}, 4)]
)
def test_E6c_method_options_win_over_the_decorator_which_wins_over_the_actor(tries, method, options, runs):
    @ray.remote(max_restarts=-1, max_task_retries=1)
    class Layered:
        def plain(self, tries):
            tries.add()
            os._exit(1)

        @ray.method(max_task_retries=2)
        def marked(self, tries):
            tries.add()
            os._exit(1)

    actor = Layered.remote()
    bound = getattr(actor, method)
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get((bound.options(**options) if options else bound).remote(tries))
    assert tries.count() == runs


def test_E6c_retry_exceptions_of_a_method(tries, tmp_path):
    actor = Server.options(max_task_retries=2).remote()
    with pytest.raises(ValueError, match="not yet"):
        ray.get(actor.raise_until.remote(tries, 2))
    assert tries.count() == 1
    other = Tries(tmp_path / "other")
    assert ray.get(actor.raise_until.options(retry_exceptions=True).remote(other, 3)) == "done"
    assert other.count() == 3
    third = Tries(tmp_path / "third")
    with pytest.raises(ValueError, match="not yet"):
        ray.get(actor.raise_until.options(retry_exceptions=[KeyError]).remote(third, 3))
    assert third.count() == 1


def test_E6d_exceptions_and_crashes_draw_from_one_budget(tries):
    actor = Server.options(max_restarts=-1, max_task_retries=3).remote()
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get(actor.alternate.options(retry_exceptions=True).remote(tries))
    assert tries.count() == 4


def test_E6e_last_crash_is_unavailable_if_the_actor_comes_back(tries):
    actor = Server.options(max_restarts=-1, max_task_retries=1).remote()
    with pytest.raises(ActorUnavailableError, match="The actor is restarting") as info:
        ray.get(actor.crash_until.remote(tries, 99))
    assert info.value.actor_id == actor._actor_id.hex()
    assert tries.count() == 2
    assert pid_after_restart(actor)


def test_E6f_last_crash_is_a_death_if_it_does_not(tries):
    actor = Server.options(max_restarts=1, max_task_retries=1).remote()
    with pytest.raises(ActorDiedError, match="exit code 1") as info:
        ray.get(actor.crash_until.remote(tries, 99))
    assert info.value.actor_id == actor._actor_id.hex()
    assert tries.count() == 2


def test_E6g_finished_call_is_never_run_again(tries):
    actor = Server.options(max_restarts=1, max_task_retries=-1).remote()
    done = [actor.note.remote(tries, f"n{number}") for number in range(20)]
    assert ray.get(done) == [f"n{number}" for number in range(20)]
    crash(actor)
    assert pid_after_restart(actor)
    assert ray.get(done) == [f"n{number}" for number in range(20)]
    assert tries.count() == 20


def test_E6g_call_that_finished_just_before_the_crash_is_not_run_again(tmp_path):
    # The replies are in the ring when the process dies: they are read before its calls are tried again.
    for number in range(5):
        tries = Tries(tmp_path / f"tries{number}")
        actor = Server.options(max_restarts=1, max_task_retries=2).remote()
        first = [actor.note.remote(tries, f"a{index}") for index in range(10)]
        crashing = actor.crash_until.remote(Tries(tmp_path / f"crash{number}"), 2)
        last = [actor.note.remote(tries, f"b{index}") for index in range(10)]
        assert ray.get([*first, crashing, *last])[10] == "done"
        assert tries.all() == [f"a{index}" for index in range(10)] + [f"b{index}" for index in range(10)]


def test_E6h_pending_calls_are_retried_in_order(tries, tmp_path):
    actor = Server.options(max_restarts=1, max_task_retries=1).remote()
    ray.get(actor.pid.remote())
    crashing = actor.crash_until.remote(Tries(tmp_path / "crash"), 2)
    refs = [actor.note.remote(tries, f"n{number:03}") for number in range(100)]
    assert ray.get(crashing) == "done"
    assert ray.get(refs) == [f"n{number:03}" for number in range(100)]
    assert tries.all() == [f"n{number:03}" for number in range(100)]


def test_E6i_calls_of_an_async_actor_that_ran_out_of_order_are_each_retried_once(tmp_path):
    folder = tmp_path / "calls"
    folder.mkdir()

    @ray.remote(max_restarts=1, max_task_retries=1)
    class Server:
        async def serve(self, number):
            import asyncio

            with open(folder / f"{number}", "a") as file:
                file.write("x")
            while not (folder / f"go-{number}").exists():
                await asyncio.sleep(0.01)
            return number

        async def crash(self):
            os._exit(1)

    server = Server.remote()
    refs = [server.serve.remote(number) for number in range(6)]
    # The last ones end first; what has ended is not run again.
    for number in (5, 3):
        (folder / f"go-{number}").touch()
    assert ray.get([refs[5], refs[3]]) == [5, 3]
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get(server.crash.options(max_task_retries=0).remote())
    for number in range(6):
        (folder / f"go-{number}").touch()
    assert ray.get(refs) == list(range(6))
    runs = {number: len((folder / f"{number}").read_text()) for number in range(6)}
    assert runs == {0: 2, 1: 2, 2: 2, 3: 1, 4: 2, 5: 1}


@ray.remote
class SlowStart:
    """A constructor that waits for a file from its second life on."""

    def __init__(self, folder):
        self.number = len(os.listdir(folder))
        open(os.path.join(folder, f"life-{self.number}"), "w").close()
        while self.number > 0 and not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.01)

    def lives(self):
        return self.number + 1

    def crash(self):
        os._exit(1)


def test_E7a_call_without_retries_fails_at_once_while_the_actor_restarts(tmp_path, wait_until):
    folder = tmp_path / "lives"
    folder.mkdir()
    actor = SlowStart.options(max_restarts=1).remote(str(folder))
    assert ray.get(actor.lives.remote()) == 1
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get(actor.crash.remote())
    wait_until(lambda: (folder / "life-1").exists())
    # Its constructor does not return before the file is there, so no answer can come from the actor itself.
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get(actor.lives.remote(), timeout=20)
    (folder / "go").touch()
    assert ray.get(actor.lives.options(max_task_retries=-1).remote()) == 2


def test_E7a_text_says_whether_the_call_may_have_run(tries):
    actor = Server.options(max_restarts=-1).remote()
    with pytest.raises(ActorUnavailableError, match="may or may not have been executed"):
        ray.get(actor.crash_until.remote(tries, 99))


def test_E7b_call_with_retries_waits_and_succeeds(tmp_path, wait_until):
    folder = tmp_path / "lives"
    folder.mkdir()
    actor = SlowStart.options(max_restarts=1, max_task_retries=1).remote(str(folder))
    assert ray.get(actor.lives.remote()) == 1
    with pytest.raises(ActorUnavailableError, match="The actor is restarting"):
        ray.get(actor.crash.options(max_task_retries=0).remote())
    wait_until(lambda: (folder / "life-1").exists())
    ref = actor.lives.remote()
    assert ray.wait([ref], timeout=0.3)[0] == []
    (folder / "go").touch()
    assert ray.get(ref) == 2


@ray.remote
class BadStart:
    """Raises in its constructor in every life but the first and those from `good` on."""

    def __init__(self, tries, good):
        self.life = tries.add()
        if 1 < self.life < good:
            raise ValueError(f"life {self.life} fails")

    def lives(self):
        return self.life


def test_E7c_constructor_that_fails_during_a_restart_uses_up_restarts(tries):
    actor = BadStart.options(max_restarts=3, max_task_retries=-1).remote(tries, 4)
    assert ray.get(actor.lives.remote()) == 1
    crash(actor)
    assert ray.get(actor.lives.remote()) == 4


def test_E7c_and_the_actor_is_dead_when_none_is_left(tries):
    actor = BadStart.options(max_restarts=2, max_task_retries=-1).remote(tries, 99)
    assert ray.get(actor.lives.remote()) == 1
    crash(actor)
    with pytest.raises(ActorDiedError, match="life 3 fails"):
        ray.get(actor.lives.remote())
    assert tries.count() == 3


def test_E7d_minus_one_restarts_for_ever(tries):
    actor = BadStart.options(max_restarts=-1, max_task_retries=-1).remote(tries, 8)
    assert ray.get(actor.lives.remote()) == 1
    crash(actor)
    assert ray.get(actor.lives.remote()) == 8
    for life in range(9, 13):
        crash(actor)
        assert ray.get(actor.lives.remote()) == life
