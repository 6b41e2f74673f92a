"""Which body of a function runs, and how long a decorated function or class lives."""

import pytest

import eagleray as ray


@pytest.mark.usefixtures("ray_session")
class TestBodies:
    def test_T3a_names_defined_after_decoration_are_seen(self):
        namespace = {"ray": ray}
        exec("@ray.remote\ndef early():\n    return late() + NUMBER", namespace)
        exec("def late():\n    return 40\nNUMBER = 2", namespace)
        assert ray.get(namespace["early"].remote()) == 42

    def test_T3a_the_first_call_fixes_the_body(self):
        namespace = {"ray": ray, "NUMBER": 1}
        exec("@ray.remote\ndef number():\n    return NUMBER", namespace)
        assert ray.get(namespace["number"].remote()) == 1
        namespace["NUMBER"] = 2
        assert ray.get(namespace["number"].remote()) == 1

    def test_T3a_functions_may_call_each_other(self):
        namespace = {"ray": ray}
        exec("@ray.remote\ndef even(n):\n    return True if n == 0 else ray.get(odd.remote(n - 1))", namespace)
        exec("@ray.remote\ndef odd(n):\n    return False if n == 0 else ray.get(even.remote(n - 1))", namespace)
        assert ray.get(namespace["even"].remote(1)) is False

    def test_T3b_a_redefinition_runs_the_new_body(self):
        @ray.remote
        def f():
            return "old"

        before = f.remote()

        @ray.remote
        def f():
            return "new"

        assert ray.get([before, f.remote()]) == ["old", "new"]

    def test_T3b_equal_source_text_does_not_make_two_functions_one(self):
        source = "@ray.remote\ndef f():\n    return helper()"
        made = []
        for text in ("one", "two"):
            namespace = {"ray": ray}
            exec(source, namespace)
            exec(f"def helper():\n    return {text!r}", namespace)
            made.append(namespace["f"])
        first = [f.remote() for f in made]
        assert ray.get(first) == ["one", "two"]
        assert ray.get([f.remote() for f in reversed(made)]) == ["two", "one"]

    def test_T3d_hundreds_of_redefinitions_in_flight_each_run_their_own_body(self):
        def define(number):
            @ray.remote
            def f():
                return number

            return f

        refs = [define(number).remote() for number in range(300)]
        assert ray.get(refs) == list(range(300))

    def test_T3d_redefined_actor_classes_each_keep_their_own_body(self):
        def define(number):
            @ray.remote(num_cpus=0)
            class Same:
                def number(self):
                    return number

            return Same

        actors = [define(number).remote() for number in range(8)]
        assert ray.get([actor.number.remote() for actor in actors]) == list(range(8))


def test_T3c_two_drivers_with_functions_of_one_name_do_not_collide(drivers):
    assert drivers.command("start", "--head", "--num-cpus", "2").returncode == 0
    code = """
        word = sys.argv[1]
        ray.init(address="auto")

        def make():
            if word == "left":
                @ray.remote
                def f(x):
                    return "left", x
            else:
                @ray.remote
                def f(x):
                    return "right", -x
            return f

        f = make()
        print("ready", flush=True)
        input()
        results = ray.get([f.remote(x) for x in range(200)])
        assert results == [(word, x if word == "left" else -x) for x in range(200)], results[:5]
        print("done", flush=True)
    """
    both = [drivers.start(code, word) for word in ("left", "right")]
    for driver in both:
        driver.hear_until("ready")
    for driver in both:
        driver.say("go")
    for driver in both:
        code, out, err = driver.end()
        assert (code, out) == (0, "done\n"), err


def test_T4a_a_function_works_again_in_the_next_session(no_session):
    @ray.remote
    def double(x):
        return 2 * x

    configured = double.options(num_cpus=0.5)
    for _ in range(3):
        ray.init(num_cpus=1)
        assert ray.get([double.remote(4), configured.remote(5)]) == [8, 10]
        ray.shutdown()


def test_T4b_a_class_works_again_in_the_next_session(no_session):
    @ray.remote
    class Counter:
        def __init__(self, start):
            self.count = start

        def add(self):
            self.count += 1
            return self.count

    configured = Counter.options(num_cpus=0)
    for start in range(3):
        ray.init(num_cpus=2)
        assert ray.get(Counter.remote(start).add.remote()) == start + 1
        assert ray.get(configured.remote(start).add.remote()) == start + 1
        ray.shutdown()


def test_T4c_the_next_session_may_use_it_first_inside_a_task(no_session):
    @ray.remote
    def leaf(x):
        return x + 1

    @ray.remote(num_cpus=0)
    class Leaf:
        def value(self):
            return "leaf"

    ray.init(num_cpus=2)
    assert ray.get(leaf.remote(1)) == 2
    assert ray.get(Leaf.remote().value.remote()) == "leaf"
    ray.shutdown()

    @ray.remote
    def outer():
        actor = Leaf.remote()
        return ray.get(leaf.remote(10)), ray.get(actor.value.remote())

    ray.init(num_cpus=2)
    assert ray.get(outer.remote()) == (11, "leaf")
    ray.shutdown()
    ray.init(num_cpus=2)
    assert ray.get(outer.remote()) == (11, "leaf")


def test_T6a_an_async_function_is_refused_at_decoration():
    async def coroutine():
        return 1

    with pytest.raises(ValueError, match="async def"):
        ray.remote(coroutine)
    with pytest.raises(ValueError, match="async def"):
        ray.remote(num_cpus=2)(coroutine)


def test_T6b_calling_a_remote_function_directly_raises():
    @ray.remote
    def f():
        return 1

    with pytest.raises(TypeError, match=r"f\.remote\(\)"):
        f()


def test_T6c_calling_an_actor_method_directly_raises(ray_session):
    @ray.remote(num_cpus=0)
    class Actor:
        def method(self):
            return 1

    actor = Actor.remote()
    with pytest.raises(TypeError, match=r"method\.remote\(\)"):
        actor.method()
    assert ray.get(actor.method.remote()) == 1


def test_T6d_a_method_that_does_not_exist_raises(ray_session):
    @ray.remote(num_cpus=0)
    class Actor:
        def method(self):
            return 1

    actor = Actor.remote()
    with pytest.raises(AttributeError, match="methodd"):
        actor.methodd.remote()
    assert not hasattr(actor, "other")
    assert hasattr(actor, "method")


def test_decoration_needs_something_to_decorate():
    with pytest.raises(TypeError, match="must be applied either with no arguments"):
        ray.remote()
    with pytest.raises(TypeError, match="must be applied either with no arguments"):
        ray.remote(3)
    with pytest.raises(TypeError, match="either a function or to a class"):
        ray.remote(num_cpus=1)(3)
    with pytest.raises(ValueError, match="num_cpu"):
        ray.remote(num_cpu=1)(lambda: None)


def test_decoration_twice_is_refused():
    @ray.remote
    def function():
        return None

    @ray.remote
    class Actor:
        pass

    for decorated in (function, Actor):
        with pytest.raises(TypeError, match="either a function or to a class"):
            ray.remote(decorated)
        with pytest.raises(TypeError, match="either a function or to a class"):
            ray.remote(num_cpus=1)(decorated)
