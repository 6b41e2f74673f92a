"""Who and where the running code is: rule X4."""

import asyncio
import os

import pytest

import eagleray as ray
from eagleray.util.placement_group import placement_group, remove_placement_group
from eagleray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

pytestmark = pytest.mark.usefixtures("shared_ray")


def context():
    return ray.get_runtime_context()


@ray.remote
def function_name():
    return context().get_task_name(), context().get_task_function_name()


@ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
class Plain:
    def names(self):
        return context().get_task_name(), context().get_task_function_name()

    def was_restarted(self):
        return context().was_current_actor_reconstructed

    def crash(self):
        os._exit(1)


@ray.remote(num_cpus=0)
class Async:
    async def names(self, everyone):
        before = context().get_task_id()
        # All of them are under way now.
        await everyone[0]
        in_thread = await asyncio.to_thread(lambda: (context().get_task_id(), context().get_task_function_name()))
        return before, context().get_task_id(), in_thread, context().get_task_name()

    async def items(self):
        yield context().get_task_function_name()

    def plain(self):
        return context().get_task_id(), context().get_task_function_name()


def test_X4a_the_functions_name_has_its_module_whatever_the_task_is_called():
    module = __name__
    assert ray.get(function_name.remote()) == ("function_name", f"{module}.function_name")
    assert ray.get(function_name.options(name="nick").remote()) == ("nick", f"{module}.function_name")
    plain = Plain.remote()
    assert ray.get(plain.names.remote()) == ("Plain.names", f"{module}.Plain.names")
    assert ray.get(plain.names.options(name="nick").remote()) == ("nick", f"{module}.Plain.names")
    assert context().get_task_function_name() is None

    @ray.remote
    def local():
        return context().get_task_function_name()

    assert ray.get(local.remote()) == f"{module}.local"


def test_X4a_a_script_counts_as_a_module(drivers, tmp_path):
    script = tmp_path / "my_script.py"
    script.write_text(
        """
import ray

@ray.remote
def where():
    return ray.get_runtime_context().get_task_function_name()

@ray.remote
class Actor:
    def where(self):
        return ray.get_runtime_context().get_task_function_name()

print(ray.get([where.remote(), Actor.remote().where.remote()]))
"""
    )
    assert drivers.command("run", str(script)).stdout == "['my_script.where', 'my_script.Actor.where']\n"


def test_X4b_coroutines_that_run_at_once_have_ids_and_names_of_their_own(signs):
    # proves: X4a
    actor = Async.remote()

    @ray.remote
    def after():
        signs.wait("all")

    gate = [after.remote()]
    calls = [actor.names.options(name=f"call {number}").remote(gate) for number in range(3)]
    signs.set("all")
    for number, (ref, (before, later, in_thread, name)) in enumerate(zip(calls, ray.get(calls), strict=True)):
        assert before == later == in_thread[0] == ref.task_id().hex()
        assert name == f"call {number}"
        assert in_thread[1] == f"{__name__}.Async.names"
    ref = actor.plain.remote()
    assert ray.get(ref) == (ref.task_id().hex(), f"{__name__}.Async.plain")
    assert [ray.get(item) for item in actor.items.remote()] == [f"{__name__}.Async.items"]


def test_X4c_an_actor_knows_that_it_was_restarted():
    plain = Plain.remote()
    assert ray.get(plain.was_restarted.remote()) is False
    plain.crash.options(max_task_retries=0).remote()
    assert ray.get(plain.was_restarted.remote()) is True
    with pytest.raises(RuntimeError, match="only available in actors"):
        _ = context().was_current_actor_reconstructed


@pytest.mark.parametrize("captures", [True, False])
def test_X4d_the_placement_group_and_the_environment(captures):
    @ray.remote(num_cpus=1)
    def look():
        here = context()
        return (
            here.current_placement_group_id.hex(),
            here.should_capture_child_tasks_in_placement_group,
            here.runtime_env.env_vars(),
            here.gcs_address,
        )

    group = placement_group([{"CPU": 1}])
    strategy = PlacementGroupSchedulingStrategy(group, 0, captures)
    options = {"scheduling_strategy": strategy, "runtime_env": {"env_vars": {"A": "b"}}}
    found = ray.get(look.options(**options).remote())
    assert found == (group.id.hex(), captures, {"A": "b"}, context().gcs_address)
    remove_placement_group(group)
    assert ray.get(look.remote())[:2] == ("f" * 36, False)
    assert context().current_placement_group_id.is_nil()
    assert os.path.isdir(os.path.join(context().get_temp_dir(), context().get_session_name()))
