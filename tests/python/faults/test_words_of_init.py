"""What init says when it cannot be followed, and what it warns of."""

import os

import pytest

import eagleray as ray


@pytest.mark.usefixtures("no_session")
def test_a_store_larger_than_the_machine_is_refused_with_both_sizes():
    with pytest.raises(
        MemoryError,
        match=r"object_store_memory=10000000000000000 .* is more than the memory of this machine: \d+ bytes",
    ):
        ray.init(num_cpus=1, object_store_memory=10**16)


@pytest.mark.usefixtures("no_session")
def test_a_deleted_working_directory_is_named_as_such(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        with pytest.raises(FileNotFoundError, match=r"working directory of this program has been deleted.*os\.chdir"):
            ray.init(num_cpus=1)
    finally:
        os.chdir(tmp_path)


@pytest.mark.usefixtures("no_session")
def test_an_empty_container_is_refused_as_a_full_one_is():
    with pytest.raises(NotImplementedError, match="container"):
        ray.init(num_cpus=1, runtime_env={"container": {}})
    ray.init(num_cpus=1, runtime_env={"pip": [], "env_vars": {}})


def test_a_detached_actor_without_a_name_is_warned_of_in_words_of_its_own(ray_session, monkeypatch):
    from eagleray import _native

    said = []
    monkeypatch.setattr(_native, "notice", lambda kind, text: said.append((kind, text)))

    @ray.remote(num_cpus=0)
    class Actor:
        def m(self):
            return 1

    actor = Actor.options(lifetime="detached").remote()
    ray.get(actor.m.remote())
    ray.kill(actor)
    ((_, text),) = said
    assert "without a name" in text
    assert "''" not in text
