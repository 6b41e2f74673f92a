"""Objects that need help to travel: serializers, what cannot travel, references in values."""

import io
import threading

import ray
from _expect import error_of
from ray.util import inspect_serializability
from ray.util.check_serialize import FailureTuple


class Connection:
    def __init__(self, host):
        self.host = host
        self.lock = threading.Lock()


class Timeout(Exception):
    def __init__(self, connection):
        super().__init__("too slow")
        self.connection = connection


@ray.remote
def host_of(connection):
    return connection.host


@ray.remote
def fail(connection):
    register()
    raise Timeout(connection)


def register():
    ray.util.register_serializer(Connection, serializer=lambda made: made.host, deserializer=Connection)


assert "Could not serialize the argument" in str(error_of(lambda: host_of.remote(Connection("a")), TypeError))
fine, failures = inspect_serializability(Connection("a"), name="connection", print_file=io.StringIO())
assert not fine
assert all(isinstance(failure, FailureTuple) for failure in failures)

register()
assert ray.get(host_of.remote(Connection("b"))) == "b"
assert error_of(lambda: ray.get(fail.remote(Connection("c"))), Timeout).cause.connection.host == "c"
ray.util.deregister_serializer(Connection)

inner = ray.put("inside")
assert ray.get(ray.get(ray.put({"ref": inner}))["ref"]) == "inside"
print("ok")
