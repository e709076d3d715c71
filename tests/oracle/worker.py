"""Runs one chunk of cases in this interpreter; prints a line of JSON for each: [case, [[name, part, what was seen], ...]]."""

import contextlib
import importlib
import json
import os
import random
import sys
import types
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
SECONDS = 240  # that a case may take, and as much again for what its calls also give; a machine may be busy


def main(chunk, out):
    """`chunk` is "functions KIND", "fuzz FAMILY FIRST COUNT" or "tests FILE"."""
    recorder = loaded("recording").Recorder(str(ROOT))
    kind, *words = chunk.split()

    @contextlib.contextmanager
    def case(name):
        random.seed(0)
        np.random.seed(0)
        recorder.begin()
        put(out, [name, None])
        try:
            yield recorder
        finally:
            if kind != "tests":  # there are thousands, with their own files and costs
                limited(recorder.further, recorder)
            put(out, [name, recorder.seen])

    {"functions": functions, "fuzz": fuzz, "tests": tests}[kind](recorder, case, *words)


def loaded(name):
    """A module of this folder under a file name of Python's own modules."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(Path(__file__).with_name(f"{name}.py").read_text(), f"<frozen {name}>", "exec"), module.__dict__)
    return module


def put(out, line):
    out.write(json.dumps(line) + "\n")
    out.flush()


def limited(call, recorder):
    """A call that ends in time; what it raises is entered."""
    from fuzz import harness

    try:
        with harness.limited(SECONDS):
            call()
    except Exception as error:
        recorder.enter("end", "exceptions", f"{type(error).__name__}: {error}")


def around(recorder):
    """Let the modules of the tests that have imported symdiff see the recorder's."""
    symdiff = sys.modules["symdiff"]
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(str(ROOT / "tests")) and vars(module).get("sd") is symdiff:
            module.sd = recorder.module


def functions(recorder, case, kind):
    """The functions of one collection, through each transform that their result allows."""
    from . import functions as plain

    for name, run in getattr(plain, kind)():
        with case(f"{kind}/{name}"), np.errstate(all="ignore"):
            limited(lambda run=run: run(recorder.module), recorder)


def fuzz(recorder, case, family, first, count):
    """Programs of a family of the fuzzer."""
    from fuzz import harness

    harness.SECONDS = SECONDS
    harness.family(family)
    around(recorder)
    for seed in range(int(first), int(first) + int(count)):
        with case(f"fuzz/{family} {seed}"):
            verdict = harness.run(family, seed)
            recorder.enter("verdict", "exceptions", verdict.kind)


def tests(recorder, case, file):
    """The tests of a file of the suite; one that looks inside symdiff ends there, on both sides."""
    import pytest

    class Inside(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return importlib.import_module("unittest.mock").Mock(side_effect=NotImplementedError(name))

    class Around:
        def pytest_collection_finish(self, session):
            around(recorder)

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_call(self, item):
            with case(item.nodeid):
                return (yield)

    sys.modules["inside"] = Inside("inside")
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-W", "ignore"]
    pytest.main([*options, str(ROOT / "tests" / file)], plugins=[Around()])
