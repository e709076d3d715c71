"""What all tests share: invariants are checked between all stages, random tests draw the same examples in every run, and
nothing is left in the user's cache.
"""

import os
import shutil
import tempfile

import hypothesis
import numpy as np
import pytest

FIRST_STATES: dict = {}  # of the generators of random numbers that test modules have
collect_ignore = ["golden", "downstream"]  # generated files; `test_golden` and `test_downstream` run them
os.environ["SYMDIFF_CHECK"] = "1"
WORKER = "PYTEST_XDIST_WORKER" in os.environ  # one of several processes, which share the first one's folder
if not WORKER:
    os.environ["SYMDIFF_CACHE"] = tempfile.mkdtemp(prefix="symdiff-tests-")
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("repeatable")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files of generated code")
    parser.addoption("--update-notebooks", action="store_true", help="store the outputs of notebooks that have changed")


def pytest_report_header():
    return f"hash seed: {os.environ.get('PYTHONHASHSEED', 'random')}"


def pytest_unconfigure():
    if not WORKER:
        shutil.rmtree(os.environ["SYMDIFF_CACHE"], ignore_errors=True)


@pytest.fixture
def update_golden(request):
    return request.config.getoption("--update-golden")


@pytest.fixture
def update_notebooks(request):
    return request.config.getoption("--update-notebooks")


@pytest.fixture(autouse=True)
def draws_of_its_own(request):
    """Each test draws the numbers that it draws alone, whatever ran before it in the process."""
    module = request.node.getparent(pytest.Module)
    for name, value in list(vars(module.obj).items()) if module is not None else ():
        if isinstance(value, np.random.Generator):
            bits = value.bit_generator
            bits.state = FIRST_STATES.setdefault((module.obj.__name__, name), bits.state)
