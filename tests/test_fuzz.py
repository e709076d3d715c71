"""A fixed sample of each family of random programs; `python -m tests.fuzz` searches on."""

import pytest
from fuzz import harness

PROGRAMS = 40
FEWER = {"holders": 8, "loops": 8, "nests": 6, "questions": 15, "views": 24}  # of families whose programs take longer


@pytest.mark.parametrize("name", harness.names())
def test_sample(name):
    for seed in range(FEWER.get(name, PROGRAMS)):
        verdict = harness.run(name, seed)
        assert verdict.kind != "wrong", f"python -m tests.fuzz --family {name} --seed {seed} --programs 1\n{verdict.why}"
