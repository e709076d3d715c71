"""What all tests share: invariants are checked between all stages, seeds are printed, nothing is left in the user's cache."""

import os
import shutil
import tempfile

import pytest

collect_ignore = ["golden"]  # generated files; `test_golden` runs them
os.environ["SYMDIFF_CHECK"] = "1"
os.environ["SYMDIFF_CACHE"] = tempfile.mkdtemp(prefix="symdiff-tests-")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files of generated code")


def pytest_report_header():
    return f"hash seed: {os.environ.get('PYTHONHASHSEED', 'random')}"


def pytest_unconfigure():
    shutil.rmtree(os.environ["SYMDIFF_CACHE"], ignore_errors=True)


@pytest.fixture
def update_golden(request):
    return request.config.getoption("--update-golden")
