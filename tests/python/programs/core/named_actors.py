"""Actors that are found by name, in namespaces; those that must exist once."""

import ray
from _expect import error_of

ray.init(num_cpus=2, namespace="office")


@ray.remote
class Clerk:
    def __init__(self):
        self.served = 0

    def serve(self):
        self.served += 1
        return self.served


@ray.remote
def visit():
    return ray.get(ray.get_actor("clerk").serve.remote())


clerk = Clerk.options(name="clerk").remote()
assert ray.get(clerk.serve.remote()) == 1
assert ray.get(visit.remote()) == 2
again = Clerk.options(name="clerk", get_if_exists=True).remote()
assert ray.get(again.serve.remote()) == 3
elsewhere = Clerk.options(name="clerk", namespace="annexe").remote()
assert ray.get(ray.get_actor("clerk", namespace="annexe").serve.remote()) == 1
assert ray.util.list_named_actors() == ["clerk"]
assert {"name": "clerk", "namespace": "annexe"} in ray.util.list_named_actors(all_namespaces=True)
assert "already taken" in str(error_of(Clerk.options(name="clerk").remote, ValueError))
missing = error_of(lambda: ray.get_actor("nobody"), ValueError)
assert "Failed to look up actor with name 'nobody'" in str(missing)
print("ok")
