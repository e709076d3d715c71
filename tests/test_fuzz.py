"""A fixed sample of each family of random programs; `python -m tests.fuzz` searches on."""

import itertools
import time

import pytest
from fuzz import harness

SECONDS = 4.0  # of each family; the first trials in any case
LEAST = 12


@pytest.mark.parametrize("name", harness.names())
def test_sample(name):
    end = time.monotonic() + SECONDS
    for seed in itertools.count():
        if seed >= LEAST and time.monotonic() > end:
            break
        verdict = harness.run(name, seed)
        assert verdict.kind != "wrong", f"python -m tests.fuzz --family {name} --seed {seed} --programs 1\n{verdict.why}"
