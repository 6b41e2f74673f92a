"""A Markov chain whose likelihoods are computed by a pool of actors."""

import emcee
import numpy as np
import ray
from ray.util.multiprocessing import Pool


def log_prob(theta):
    return -0.5 * float(np.sum(theta**2))


if __name__ == "__main__":
    ray.init(num_cpus=2)
    start = np.random.default_rng(1).normal(size=(10, 3))
    with Pool(2) as pool:
        sampler = emcee.EnsembleSampler(10, 3, log_prob, pool=pool)
        sampler.run_mcmc(start, 60)
    chain = sampler.get_chain(flat=True)
    assert chain.shape == (600, 3)
    assert abs(chain.mean()) < 1.0
    print("emcee ran on eagleray", ray.__name__)
