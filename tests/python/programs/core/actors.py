"""State in a process of its own: methods, errors, handles that travel, ends."""

import ray
from _expect import error_of
from ray.exceptions import RayActorError


@ray.remote
class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("only positive amounts")
        self.balance += amount
        return self.balance

    def leave(self):
        ray.actor.exit_actor()


@ray.remote
def pay(account, times):
    return ray.get([account.deposit.remote(1) for _ in range(times)])[-1]


account = Account.remote(10)
assert ray.get(account.deposit.remote(5)) == 15
assert "only positive amounts" in str(error_of(lambda: ray.get(account.deposit.remote(-1)), ValueError))
assert ray.get(pay.remote(account, 3)) == 18

account.leave.remote()
error_of(lambda: ray.get(account.deposit.remote(1)), RayActorError)

other = Account.options(num_cpus=0).remote()
ray.kill(other)
error_of(lambda: ray.get(other.deposit.remote(1)), RayActorError)
print("ok")
