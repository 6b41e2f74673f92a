"""Folders and modules that travel with a program: workers find them where the program's own folders are not."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import eagleray as ray
from eagleray import _native
from eagleray.exceptions import RayTaskError, RuntimeEnvSetupError
from eagleray.job_config import JobConfig
from eagleray.runtime_env import packages

pytestmark = pytest.mark.two_nodes


@ray.remote
def look(*names):
    """Where a task is, and what it reads there."""
    return os.getpid(), os.getcwd(), [Path(name).read_text() for name in names]


@ray.remote
def value_of(module):
    return __import__(module).VALUE


@ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
class Looker:
    def __init__(self):
        self.born_in = os.getcwd()

    def look(self, *names):
        return os.getpid(), self.born_in, [Path(name).read_text() for name in names]

    def value_of(self, module):
        return __import__(module).VALUE

    def inside(self, options):
        return ray.get(look.options(**options).remote("data.txt"))[2]

    def actor_inside(self):
        return ray.get(Looker.remote().look.remote("data.txt"))[2]

    def die(self):
        os._exit(1)


@pytest.fixture
def make(tmp_path):
    """Makes folders with files, which no worker finds by itself."""

    def make(name, **files):
        folder = tmp_path / name
        folder.mkdir()
        for file, text in files.items():
            path = folder / file.replace("__", "/").replace("_py", ".py").replace("_txt", ".txt")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return folder

    return make


@pytest.fixture
def hidden(monkeypatch):
    """Lets this process import from a folder that its workers were not told of."""

    def hidden(folder):
        monkeypatch.syspath_prepend(str(folder))

    yield hidden
    for name in [name for name in sys.modules if name.startswith("hidden_")]:
        del sys.modules[name]


def test_L2a_every_process_of_a_job_works_in_its_folder(no_session, make):
    folder = make("app", data_txt="of the job", hidden_a_py="VALUE = 1", deep__data_txt="deep")
    here = os.getcwd()
    ray.init(num_cpus=2, runtime_env={"working_dir": str(folder)})
    shutil.rmtree(folder)
    assert os.getcwd() == here
    _, where, read = ray.get(look.remote("data.txt", "deep/data.txt"))
    assert read == ["of the job", "deep"]
    assert ray.get(value_of.remote("hidden_a")) == 1
    actor = Looker.remote()
    _, born_in, read = ray.get(actor.look.remote("data.txt"))
    # It may live on another node, where the package has the same name.
    assert (os.path.basename(born_in), read) == (os.path.basename(where), ["of the job"])
    assert ray.get(actor.value_of.remote("hidden_a")) == 1


def test_L2a_functions_and_arguments_find_the_modules_that_they_are_of(no_session, make, hidden):
    text = "class Thing:\n    def __init__(self, n):\n        self.n = n\ndef double(thing):\n    return Thing(2 * thing.n)"
    folder = make("app", hidden_b_py=text)
    ray.init(num_cpus=2, runtime_env={"working_dir": str(folder)})
    hidden(folder)
    import hidden_b

    assert ray.get(ray.remote(hidden_b.double).remote(hidden_b.Thing(4))).n == 8
    assert ray.get(ray.remote(lambda thing: hidden_b.double(thing).n).remote(ray.put(hidden_b.Thing(3)))) == 6


def test_L2a_the_configuration_of_a_job_may_say_so(no_session, make):
    folder = make("app", data_txt="configured")
    ray.init(num_cpus=1, job_config=JobConfig(runtime_env={"working_dir": folder, "env_vars": {"WHO": "job"}}))
    assert ray.get(look.remote("data.txt"))[2] == ["configured"]


def test_L2a_a_zip_is_unpacked(no_session, make, tmp_path):
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("data.txt", "zipped")
        archive.writestr("hidden_c.py", "VALUE = 3")
    ray.init(num_cpus=1, runtime_env={"working_dir": str(tmp_path / "app.zip")})
    assert ray.get(look.remote("data.txt"))[2] == ["zipped"]
    assert ray.get(value_of.remote("hidden_c")) == 3


def test_L2b_modules_are_found_whatever_they_are_given_as(no_session, make, tmp_path, hidden):
    package = make("hidden_package", inner_py="VALUE = 2")
    (package / "__init__.py").write_text("from hidden_package.inner import VALUE")
    single = make("single", hidden_single_py="VALUE = 4")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("hidden_zipped.py", "VALUE = 8")
    hidden(make("objects", hidden_object_py="VALUE = 16"))
    import hidden_object

    here = os.getcwd()
    modules = [str(package), single / "hidden_single.py", str(tmp_path / "more.zip"), hidden_object]
    sys.path.remove(str(tmp_path / "objects"))
    ray.init(num_cpus=2, runtime_env={"py_modules": modules})
    shutil.rmtree(package)
    names = ["hidden_package", "hidden_single", "hidden_zipped", "hidden_object"]
    assert ray.get([value_of.remote(name) for name in names]) == [2, 4, 8, 16]
    # They do not change where workers are; and what a worker starts finds them too.
    assert ray.get(look.remote())[1] == here
    started = ray.remote(
        lambda: subprocess.check_output([sys.executable, "-c", "import hidden_single as h; print(h.VALUE)"])
    )
    assert ray.get(started.remote()) == b"4\n"


def test_L2b_a_folder_may_be_empty_and_a_wheel_is_a_package(no_session, make, tmp_path):
    with zipfile.ZipFile(tmp_path / "hidden_wheel-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("hidden_wheel/__init__.py", "VALUE = 32")
        archive.writestr(
            "hidden_wheel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hidden-wheel\nVersion: 1.0\n"
        )
    env = {"working_dir": make("empty"), "py_modules": [str(tmp_path / "hidden_wheel-1.0-py3-none-any.whl")]}
    ray.init(num_cpus=1, runtime_env=env)
    version = ray.remote(lambda: __import__("importlib.metadata").metadata.version("hidden-wheel"))
    found = ray.get([ray.remote(os.listdir).remote(), value_of.remote("hidden_wheel"), version.remote()])
    assert found == [[], 32, "1.0"]


def test_L2b_a_path_that_the_program_gives_stays(no_session, make):
    modules, more = make("modules", hidden_h_py="VALUE = 1"), make("more", hidden_i_py="VALUE = 2")
    env = {"py_modules": [str(modules / "hidden_h.py")], "env_vars": {"PYTHONPATH": str(more)}}
    ray.init(num_cpus=1, runtime_env=env)
    code = "import hidden_h, hidden_i; print(hidden_h.VALUE, hidden_i.VALUE)"
    assert ray.get(ray.remote(lambda: subprocess.check_output([sys.executable, "-c", code])).remote()) == b"1 2\n"


def test_L2c_the_nearer_folder_wins_and_variables_are_merged(no_session, make):
    job, own = make("job", data_txt="job"), make("own", data_txt="own")
    ray.init(num_cpus=2, runtime_env={"working_dir": str(job), "env_vars": {"WHO": "job"}})
    own_env = {"working_dir": str(own), "env_vars": {"MORE": "own"}}
    who = ray.remote(lambda: (Path("data.txt").read_text(), os.environ["WHO"], os.environ.get("MORE")))
    assert ray.get(who.remote()) == ("job", "job", None)
    assert ray.get(who.options(runtime_env=own_env).remote()) == ("own", "job", "own")
    assert ray.get(who.remote()) == ("job", "job", None)
    actor = Looker.options(runtime_env=own_env).remote()
    assert ray.get(actor.look.remote("data.txt"))[2] == ["own"]


def test_L2c_a_task_keeps_the_modules_of_its_job_beside_its_own_folder(no_session, make):
    modules, own = make("modules", hidden_d_py="VALUE = 1"), make("own", data_txt="own")
    ray.init(num_cpus=1, runtime_env={"py_modules": [str(modules / "hidden_d.py")]})
    here = ray.remote(lambda: (Path("data.txt").read_text(), __import__("hidden_d").VALUE))
    assert ray.get(here.options(runtime_env={"working_dir": str(own)}).remote()) == ("own", 1)


@pytest.mark.usefixtures("ray_session")
class TestOfCalls:
    def test_L2d_what_is_started_inside_inherits(self, make):
        one, other = make("one", data_txt="one"), make("other", data_txt="other")
        actor = Looker.options(runtime_env={"working_dir": str(one)}).remote()
        # The worker cannot ask the program's folders: what it needs is with it.
        shutil.rmtree(one)
        assert ray.get(actor.inside.remote({})) == ["one"]
        assert ray.get(actor.actor_inside.remote()) == ["one"]
        assert ray.get(actor.inside.remote({"runtime_env": {"working_dir": str(other)}})) == ["other"]

    def test_L2d_a_function_that_travels_takes_its_folder_along(self, make):
        folder = make("one", data_txt="one")

        @ray.remote(runtime_env={"working_dir": str(folder)})
        def inner():
            return Path("data.txt").read_text()

        @ray.remote
        def outer():
            return ray.get(inner.remote())

        assert ray.get(inner.remote()) == "one"
        ref = outer.remote()
        shutil.rmtree(folder)
        assert ray.get(ref) == "one"

    def test_L2e_the_same_folder_meets_the_same_process_and_others_never_do(self, make):
        envs = [{"working_dir": str(make(name, data_txt=name))} for name in ("a", "b")]
        copy = {"working_dir": str(make("copy", data_txt="a"))}
        served = {}
        for _ in range(3):
            for who, env in (("a", envs[0]), ("b", envs[1]), ("a", copy), (None, None)):
                names = () if who is None else ("data.txt",)
                for pid, where, read in ray.get([look.options(runtime_env=env).remote(*names) for _ in range(10)]):
                    assert read == [who] * len(names)
                    served.setdefault(who, set()).add((pid, where))
        pids = {who: {pid for pid, _ in found} for who, found in served.items()}
        assert not pids["a"] & pids["b"]
        assert not (pids["a"] | pids["b"]) & pids[None]
        assert [len({where for _, where in served[who]}) for who in ("a", "b", None)] == [1, 1, 1]

    def test_L2e_a_changed_file_is_another_folder(self, make):
        folder = make("app", data_txt="old")
        env = {"working_dir": str(folder)}
        for text in ("old", "new", "newer"):
            (folder / "data.txt").write_text(text)
            assert ray.get(look.options(runtime_env=env).remote("data.txt"))[2] == [text]

    def test_L2f_an_actor_works_there_in_every_life(self, make):
        folder = make("app", data_txt="one", hidden_e_py="VALUE = 5")
        actor = Looker.options(runtime_env={"working_dir": str(folder)}).remote()
        first = ray.get(actor.look.remote("data.txt"))
        shutil.rmtree(folder)
        actor.die.options(max_task_retries=0).remote()
        again = ray.get(actor.look.remote("data.txt"))
        assert again[0] != first[0]
        assert [os.path.basename(where) for _, where, _ in (first, again)] == 2 * [os.path.basename(first[1])]
        assert first[2] == again[2] == ["one"]
        assert ray.get(actor.value_of.remote("hidden_e")) == 5

    def test_L2g_more_than_one_message_takes_comes_whole(self, make):
        folder = make("large")
        content = os.urandom(2 * packages.PART_BYTES_MAX + 5)
        (folder / "data.bin").write_bytes(content)
        read = ray.remote(lambda: Path("data.bin").read_bytes() == content)
        assert ray.get(read.options(runtime_env={"working_dir": str(folder)}).remote())

    def test_L2g_many_processes_unpack_it_once(self, make):
        folder = make("app", **{f"file_{at}_txt": str(at) for at in range(300)})
        env = {"working_dir": str(folder)}
        actors = [Looker.options(runtime_env=env).remote() for _ in range(8)]
        # All at once: who has waited for another to unpack it must not go on waiting.
        places = {where for _, where, _ in ray.get([actor.look.remote("file_7.txt") for actor in actors])}
        # One on each node, and nothing beside it that was begun and left.
        assert {os.path.basename(place) for place in places} == {os.path.basename(min(places))}
        for place in map(Path, places):
            assert sorted(path.suffix for path in place.parent.glob(f"{place.name}*")) == ["", ".lock", ".making"]
            assert len(list(place.iterdir())) == 300

    def test_L2h_runtime_context_tells_the_packages(self, make):
        folder = make("app", data_txt="one")
        module = make("hidden_g", inner_py="VALUE = 7")
        told = ray.remote(lambda: ray.get_runtime_context().get_runtime_env_string())
        env = {"working_dir": str(folder), "py_modules": [str(module)], "env_vars": {"WHO": "a"}}
        named = json.loads(ray.get(told.options(runtime_env=env).remote()))
        uris = [named["working_dir"], *named["py_modules"]]
        assert [bool(packages.URI.fullmatch(uri)) for uri in uris] == [True, True]
        assert named["env_vars"] == env["env_vars"]
        # What is told may be given.
        assert ray.get(look.options(runtime_env=named).remote("data.txt"))[2] == ["one"]

    @pytest.mark.one_node("spoils the folder of the driver's node")
    def test_L1h_L2i_a_setup_that_fails_says_why_and_where(self, make):
        folder = make("app", data_txt="one")
        place = os.path.join(_native.identity()["session_dir"], "functions", "packages")
        os.makedirs(os.path.dirname(place), exist_ok=True)
        open(place, "w").close()
        task = look.options(runtime_env={"working_dir": str(folder)})
        for _ in range(2):
            with pytest.raises(
                RuntimeEnvSetupError,
                match=r"(?s)Failed to set up runtime environment.*\[Node 127\.0\.0\.1 .*FileExistsError",
            ):
                ray.get(task.remote("data.txt"))
        os.unlink(place)
        assert ray.get(task.remote("data.txt"))[2] == ["one"]

    def test_L2j_a_folder_that_is_not_there_raises_from_the_call(self, tmp_path):
        task, actor = (one.options(runtime_env={"working_dir": str(tmp_path / "no")}) for one in (look, Looker))
        for give in (task.remote, actor.remote):
            with pytest.raises(ValueError, match="no must be an existing directory or a zip package"):
                give()


def test_L2j_a_job_without_its_folder_does_not_start(no_session, tmp_path):
    with pytest.raises(ValueError, match="no must be an existing directory or a zip package"):
        ray.init(num_cpus=1, runtime_env={"working_dir": str(tmp_path / "no")})
    assert not ray.is_initialized()
    with pytest.raises(NotImplementedError, match="s3://bucket/app.zip is not available in this version"):
        ray.init(num_cpus=1, runtime_env={"working_dir": "s3://bucket/app.zip"})
    assert not ray.is_initialized()


@pytest.mark.one_node("a session over two of them does not end with its program")
def test_L2k_packages_go_with_the_session(no_session, make, leaks):
    folder = make("app", data_txt="one")
    for _ in range(2):
        ray.init(num_cpus=1, runtime_env={"working_dir": str(folder)})
        where = ray.get(look.remote("data.txt"))[1]
        ray.shutdown()
        leaks.check([], where)


def test_L2k_packages_go_with_the_daemon_too(drivers, make):
    folder = make("app", data_txt="one")
    assert drivers.command("start", "--head", "--num-cpus", "1").returncode == 0
    code = """
    ray.init(address="auto", runtime_env={"working_dir": sys.argv[1]})
    print(ray.get(ray.remote(lambda: os.getcwd() + " " + open("data.txt").read()).remote()))
    """
    where = {drivers.run(code, folder)[0].split()[0] for _ in range(2)}
    assert len(where) == 1
    assert os.path.exists(*where)
    assert drivers.command("stop").returncode == 0
    assert not os.path.exists(*where)


def test_L2l_a_missing_module_is_named_with_its_node_and_what_to_do(ray_session, make, hidden):
    hidden(make("app", hidden_f_py="class Thing: pass\ndef give(): pass"))
    import hidden_f

    said = r"(?s)'hidden_f' is not installed on node [\d.]+ .*runtime_env={'working_dir': '\.'}"
    inner = value_of.remote("hidden_f")
    calls = [
        ray.remote(hidden_f.give).remote(),
        look.remote(hidden_f.Thing()),
        look.remote(ray.put(hidden_f.Thing())),
        inner,
    ]
    for call in calls:
        with pytest.raises(RayTaskError, match=said):
            ray.get(call)
    with pytest.raises(ModuleNotFoundError, match=said):
        ray.get(inner)
    with pytest.raises(ray.exceptions.RayActorError, match=said):
        ray.get(ray.remote(hidden_f.Thing).remote().__ray_ready__.remote())


def test_L2l_a_module_that_is_there_and_lacks_a_part_is_another_matter(ray_session):
    with pytest.raises(ModuleNotFoundError, match="no_such_part") as caught:
        ray.get(ray.remote(lambda: __import__("json.no_such_part")).remote())
    assert "is not installed" not in str(caught.value)


def test_L2m_in_local_mode_the_program_is_where_it_is(no_session, make):
    folder = make("app", data_txt="one")
    ray.init(local_mode=True, runtime_env={"working_dir": str(folder), "env_vars": {"LOCAL_WORD": "yes"}})
    found = ray.remote(lambda: (os.getcwd(), os.environ["LOCAL_WORD"], [name for name in os.environ if "=" in name]))
    assert ray.get(found.remote()) == (os.getcwd(), "yes", [])
    assert ray.get(found.options(runtime_env={"working_dir": str(folder)}).remote())[0] == os.getcwd()
