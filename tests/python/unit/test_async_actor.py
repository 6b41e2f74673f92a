"""The event loop that serves an async actor knows which calls are under way, however their tasks are made."""

import asyncio
from types import SimpleNamespace

import pytest

from eagleray._worker.async_actor import Server


class Call:
    """What the loop sees of a call."""

    name = "method"
    yields = ""

    def __init__(self, invoke, task_id="task"):
        self.invoke = invoke
        self.task_id = task_id
        self.answers = []
        self.has_been_cancelled = False

    def is_cancelled(self):
        return self.has_been_cancelled

    def cancelled(self):
        self.answers.append("cancelled")

    def finish(self, worker, value):
        self.answers.append(value)


@pytest.fixture
def server():
    made = Server(SimpleNamespace(about={"concurrency": 10}, is_leaving=False))
    yield made
    made.loop.close()
    asyncio.set_event_loop(None)


def eager(loop, coroutine, **_):
    """As eager factories do: the first step is made at once, and perhaps it was the last."""
    first_step = loop.create_future()
    try:
        coroutine.send(None)
    except StopIteration:
        first_step.set_result(None)
    return first_step


def test_a_call_that_ends_while_its_task_is_made_is_not_under_way(server):
    # It was noted after it had ended: the actor counted it for ever and could not end.
    server.loop.set_task_factory(eager)
    call = Call(lambda: 7)
    server.start(call)
    assert (call.answers, server.running) == ([7], {})


def test_a_call_is_under_way_while_its_task_is_made(server):
    server.loop.set_task_factory(eager)
    seen = []
    server.start(Call(lambda: seen.append(len(server.running))))
    assert seen == [1]


def test_an_actor_ends_when_its_last_call_is_cancelled_before_its_first_step(server):
    # The call was forgotten without a look at whether it was the last: the loop ran on for ever.
    call = Call(lambda: 7)
    server.start(call)
    server.stop("exit")
    call.has_been_cancelled = True
    server.interrupt()
    assert call.answers == ["cancelled"]
    assert server.loop._stopping
    server.loop.run_forever()
