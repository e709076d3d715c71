"""A fixed sample of each family of random programs; `python -m tests.fuzz` searches on."""

import pytest
from fuzz import harness

PROGRAMS = 60
FEWER = {"holders": 10, "loops": 15, "nests": 15, "questions": 15}  # of families whose programs take longer


@pytest.mark.parametrize("name", harness.names())
def test_sample(name):
    for seed in range(FEWER.get(name, PROGRAMS)):
        verdict = harness.run(name, seed)
        assert verdict.kind != "wrong", f"python -m tests.fuzz --family {name} --seed {seed} --programs 1\n{verdict.why}"
