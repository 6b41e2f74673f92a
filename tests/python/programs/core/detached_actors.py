"""An actor that outlives the program which made it, in a node of its own."""

import subprocess
import sys
import textwrap

import ray

MAKER = """
import ray

ray.init(address="auto", namespace="shop")


@ray.remote
class Till:
    def __init__(self):
        self.total = 0

    def pay(self, amount):
        self.total += amount
        return self.total


till = Till.options(name="till", lifetime="detached").remote()
assert ray.get(till.pay.remote(5)) == 5
"""

EAGLERAY = [sys.executable, "-m", "eagleray"]
subprocess.run([*EAGLERAY, "start", "--head", "--num-cpus", "2"], check=True, capture_output=True)
try:
    maker = textwrap.dedent(MAKER).replace("import ray", "import eagleray as ray")
    subprocess.run([sys.executable, "-c", maker], check=True)
    ray.init(address="auto", namespace="shop")
    till = ray.get_actor("till")
    assert ray.get(till.pay.remote(7)) == 12
    ray.kill(till)
    ray.shutdown()
finally:
    subprocess.run([*EAGLERAY, "stop"], check=True, capture_output=True)
print("ok")
