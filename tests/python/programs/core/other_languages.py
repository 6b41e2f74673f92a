"""Java and C++ are refused in words."""

import ray
from _expect import error_of
from ray.cross_language import cpp_function

for call in (
    lambda: ray.java_function("io.ray.Demo", "add"),
    lambda: ray.java_actor_class("io.ray.Demo"),
    lambda: cpp_function("add"),
):
    assert "Python" in str(error_of(call, NotImplementedError))
assert ray.Language.PYTHON == 0
print("ok")
