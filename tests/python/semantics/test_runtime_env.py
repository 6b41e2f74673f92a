"""Environment variables of single tasks and actors; what cannot be followed is refused, not ignored."""

import json
import os
import signal

import pytest

import eagleray as ray
from eagleray.job_config import JobConfig
from eagleray.runtime_env import RuntimeEnv

A = {"env_vars": {"WHO": "a"}}
B = {"env_vars": {"WHO": "b"}}


@ray.remote
def look(*names):
    """The process, and what it finds in its environment."""
    return os.getpid(), *(os.environ.get(name) for name in names)


@ray.remote(num_cpus=0)
class Looker:
    def __init__(self):
        self.born_with = os.environ.get("WHO")

    def look(self, *names):
        return os.getpid(), *(os.environ.get(name) for name in names)

    def born(self):
        return self.born_with

    def ask(self, options):
        return ray.get(look.options(**options).remote("WHO", "MORE"))[1:]


@pytest.fixture
def job(no_session):
    """A session whose job has variables of its own."""
    return ray.init(num_cpus=2, runtime_env={"env_vars": {"WHO": "job", "MORE": "of the job"}})


def test_L1a_L1f_a_task_finds_its_variables(ray_session):
    assert ray.get(look.options(runtime_env=A).remote("WHO"))[1] == "a"
    assert ray.get(look.options(runtime_env=RuntimeEnv(**B)).remote("WHO"))[1] == "b"
    assert ray.get(look.remote("WHO"))[1] is None
    assert "WHO" not in os.environ

    @ray.remote(runtime_env=A)
    def decorated():
        return os.environ["WHO"]

    assert ray.get(decorated.remote()) == "a"
    # Other options leave it as it is; none at all takes it away.
    assert ray.get(decorated.options(name="other").remote()) == "a"
    with pytest.raises(KeyError):
        ray.get(decorated.options(runtime_env=None).remote())


def test_L1a_an_actor_finds_its_variables_in_every_life(ray_session):
    actor = Looker.options(runtime_env=A, max_restarts=1, max_task_retries=1).remote()
    pid, who = ray.get(actor.look.remote("WHO"))
    assert (who, ray.get(actor.born.remote())) == ("a", "a")
    os.kill(pid, signal.SIGKILL)
    again, who = ray.get(actor.look.remote("WHO"))
    assert again != pid
    assert (who, ray.get(actor.born.remote())) == ("a", "a")


def test_L1a_a_task_that_is_tried_again_finds_them_again(ray_session, tmp_path):
    @ray.remote(runtime_env=A, max_retries=1)
    def crash_once(path):
        if not os.path.exists(path):
            open(path, "w").close()
            os._exit(1)
        return os.environ["WHO"]

    assert ray.get(crash_once.remote(str(tmp_path / "mark"))) == "a"


def test_L1b_the_nearer_variables_win_name_by_name(job):
    assert ray.get(look.remote("WHO", "MORE"))[1:] == ("job", "of the job")
    assert ray.get(look.options(runtime_env=A).remote("WHO", "MORE"))[1:] == ("a", "of the job")
    actor = Looker.options(runtime_env=A).remote()
    assert ray.get(actor.look.remote("WHO", "MORE"))[1:] == ("a", "of the job")
    # Nothing of that stays behind.
    assert ray.get(look.remote("WHO", "MORE"))[1:] == ("job", "of the job")


def test_L1c_what_is_started_inside_inherits(job):
    actor = Looker.options(runtime_env=A).remote()
    assert ray.get(actor.ask.remote({})) == ("a", "of the job")
    own = {"runtime_env": {"env_vars": {"MORE": "own"}}}
    assert ray.get(actor.ask.remote(own)) == ("a", "own")

    @ray.remote(runtime_env=B)
    def start_an_actor():
        inner = Looker.remote()
        return ray.get(inner.look.remote("WHO"))[1]

    assert ray.get(start_an_actor.remote()) == "b"


def test_L1d_a_value_may_name_what_was_there_before(job):
    env_vars = {"PATH": "${PATH}:/more", "MORE": "${MORE}, and more", "NEW": "<${NO_SUCH_NAME}>"}
    found = ray.get(look.options(runtime_env={"env_vars": env_vars}).remote(*env_vars))[1:]
    assert found == (os.environ["PATH"] + ":/more", "of the job, and more", "<>")


def test_L1e_the_same_variables_meet_the_same_process_and_others_never_do(ray_session):
    served = {}
    for _ in range(3):
        for name, options in (("a", {"runtime_env": A}), ("b", {"runtime_env": B}), ("none", {})):
            refs = [look.options(**options).remote("WHO") for _ in range(20)]
            for pid, who in ray.get(refs):
                assert who == (None if name == "none" else name)
                served.setdefault(name, set()).add(pid)
    assert not served["a"] & served["b"]
    assert not (served["a"] | served["b"]) & served["none"]
    # Not a process for each call.
    assert all(len(pids) < 20 for pids in served.values()), served


def test_L1e_variables_of_one_driver_do_not_reach_another(drivers):
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    code = """
    ray.init(address="auto")
    @ray.remote
    def look():
        return os.environ.get("WHO")
    for _ in range(3):
        print("found", ray.get(look.options(runtime_env={"env_vars": {"WHO": sys.argv[1]}}).remote()), ray.get(look.remote()))
    """
    for who in ("one", "two"):
        out, _ = drivers.run(code, who)
        assert out.count(f"found {who} None") == 3, out


def test_runtime_context_tells_the_variables(job):
    @ray.remote
    def told():
        return ray.get_runtime_context().get_runtime_env_string()

    assert json.loads(ray.get(told.options(runtime_env=A).remote())) == {"env_vars": {"WHO": "a", "MORE": "of the job"}}


REFUSED = {
    "py_executable": "python3",
    "pip": ["numpy"],
    "uv": ["numpy"],
    "conda": "base",
    "container": {"image": "x"},
    "image_uri": "x",
    "worker_process_setup_hook": "module.function",
    "nsight": "default",
}


@pytest.mark.parametrize(("field", "value"), REFUSED.items(), ids=REFUSED)
def test_L1g_a_field_that_cannot_be_followed_is_refused_with_what_to_do(no_session, field, value):
    env = {field: value, "env_vars": {"WHO": "a"}}
    givers = [
        lambda: ray.remote(runtime_env=env)(lambda: 1),
        lambda: look.options(runtime_env=env),
        lambda: Looker.options(runtime_env=RuntimeEnv(**env)),
        lambda: ray.init(num_cpus=1, runtime_env=env),
        lambda: ray.init(num_cpus=1, job_config=JobConfig(runtime_env=env)),
    ]
    for give in givers:
        with pytest.raises(
            NotImplementedError, match=rf"runtime_env\['{field}'\] is not available in this version; \w+"
        ):
            give()
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    ("env", "error", "text"),
    [
        ({"env_vars": {"A": 1}}, TypeError, "it contains 'A': 1"),
        ({"env_vars": {1: "a"}}, TypeError, "it contains 1: 'a'"),
        ({"env_vars": ["A=1"]}, TypeError, "got <class 'list'>"),
        ({"env_vars": {"A=B": "1"}}, ValueError, "'A=B' cannot be the name of an environment variable"),
        ({"env_vars": {"A": "\0"}}, ValueError, "'A' cannot"),
        ({"no_such_field": 1}, ValueError, "Unknown fields of a runtime_env: no_such_field"),
        ("env_vars", TypeError, r"must be (a )?dict or (a )?RuntimeEnv, .*<class 'str'>"),
    ],
)
def test_L1g_a_value_of_a_wrong_kind_raises_where_it_is_given(no_session, env, error, text):
    for give in (look.options, Looker.options):
        with pytest.raises(error, match=text):
            give(runtime_env=env)
    with pytest.raises(error, match=text):
        ray.init(num_cpus=1, runtime_env=env)
    assert not ray.is_initialized()
