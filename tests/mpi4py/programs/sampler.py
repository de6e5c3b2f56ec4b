"""emcee samples a Gaussian through schwimmbad's MPI pool: rank 0 asks, the others compute."""

import sys

import emcee
import numpy as np
from schwimmbad import MPIPool

MEAN, SPREAD = 3.0, 0.5


def log_probability(x):
    """That of a normal distribution."""
    return -0.5 * float(((x[0] - MEAN) / SPREAD) ** 2)


with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    start = MEAN + 0.1 * np.random.default_rng(1).standard_normal((16, 1))
    sampler = emcee.EnsembleSampler(16, 1, log_probability, pool=pool)
    # The sampler's own generator: without that one run in a hundred has another mean.
    sampler.random_state = np.random.RandomState(1).get_state()
    sampler.run_mcmc(start, 150)
    chain = sampler.get_chain(discard=50, flat=True)
    print(f"sampled {len(chain)} by {pool.size} workers: mean {chain.mean():.1f}")
