"""Errors of tasks: their classes, their chains, retries of exceptions and of crashes."""

import os
import tempfile

import ray
from _expect import error_of
from ray.exceptions import RayTaskError, WorkerCrashedError


@ray.remote
def fail(text):
    raise LookupError(text)


@ray.remote
def use(value):
    return value


@ray.remote
def wrap():
    try:
        return ray.get(fail.remote("inner"))
    except LookupError as error:
        raise RuntimeError("outer") from error


@ray.remote(max_retries=0)
def crash():
    os._exit(1)


@ray.remote(max_retries=3, retry_exceptions=[ConnectionError])
def flaky(folder):
    with open(os.path.join(folder, "runs"), "a") as file:
        file.write("x")
    if os.path.getsize(os.path.join(folder, "runs")) < 3:
        raise ConnectionError("again")
    return "at last"


error = error_of(lambda: ray.get(use.remote(fail.remote("first"))), LookupError)
assert isinstance(error, RayTaskError)
assert isinstance(error.cause, LookupError)
assert "At least one of the input arguments for this task could not be computed" in str(error)
assert "ray.exceptions.RayTaskError: ray::fail()" in str(error)
error = error_of(lambda: ray.get(wrap.remote()), RuntimeError)
assert "The above exception was the direct cause of the following exception" in str(error)
assert "LookupError: inner" in str(error)
error_of(lambda: ray.get(crash.remote()), WorkerCrashedError)
with tempfile.TemporaryDirectory() as folder:
    assert ray.get(flaky.remote(folder)) == "at last"
print("ok")
