"""What all tests share: invariants are checked between all stages, seeds are printed."""

import os

import pytest

os.environ["SYMDIFF_CHECK"] = "1"


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files of generated code")


def pytest_report_header():
    return f"hash seed: {os.environ.get('PYTHONHASHSEED', 'random')}"


@pytest.fixture
def update_golden(request):
    return request.config.getoption("--update-golden")
