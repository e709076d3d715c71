"""What a value is for Python beside its number: its digits as an integer, its class, whether it is the same object."""

import math

import numpy as np
import pytest
from inside import structures

import symdiff as sd

BIG = 2**53 + 1  # the first integer that no double holds
BIGS = np.array([BIG, BIG + 2])
WHOLE = {  # what keeps all digits of integers, or is refused
    "argument": (lambda x, n: x * (n - 2**53), (2.0, BIG)),
    "array": (lambda x, n: x * (n - 2**53).sum(), (2.0, BIGS)),
    "index": (lambda x, n: x[n - BIG].sum(), (np.arange(1.0, 4.0), BIGS)),
    "captured": (lambda x: x * (BIG - 2**53), (2.0,)),
    "captured_array": (lambda x: x * (BIGS - 2**53).sum(), (2.0,)),
    "beside_truths": (lambda x: x * ((x > 0) * BIG - 2**53), (2.0,)),
    "factorial": (lambda x: x**25 / math.factorial(25), (2.0,)),
    "result": (lambda x: (x, BIG), (2.0,)),
    "results": (lambda x: BIGS + 0 * int(x), (2.0,)),
    "branch": (lambda x: (BIG if x > 0 else int(x)) - 2**53 + 0 * x, (2.0,)),
    "select": (lambda x: x * (np.where(x > 0, BIG, 3) - 2**53), (2.0,)),
    "select_array": (lambda x: x * (np.where(x > 0, BIGS, 3) - 2**53).sum(), (2.0,)),
    "list": (lambda x: x * ([1, BIG][int(x > 0)] - 2**53), (2.0,)),
    "taken": (lambda x: x * (BIGS[(x > 0).astype(int)] - 2**53).sum(), (np.array([1.0, -1.0]),)),
    "stored": (lambda x: x * (stored(x.astype(int)) - 2**53).sum(), (np.array([1.0, -1.0]),)),
    "stacked": (lambda x: x * (np.array([int(x), BIG]) - 2**53).sum(), (2.0,)),
    "maximum": (lambda x: x * (np.maximum(int(x), BIG) - 2**53), (2.0,)),
    "max": (lambda x: x * (max(x, BIG) - 2**53), (2.0,)),
    "clip": (lambda x: x * (np.clip(np.argsort(x), BIG, None) - 2**53).sum(), (np.array([1.0, -1.0]),)),
    "argmax": (lambda x: x * (np.argmax(x) + BIGS - 2**53), (np.array([1.0, -1.0]),)),
    "searched": (lambda x: x * np.searchsorted(BIGS, int(x)), (2.0,)),
    "multiplied": (lambda x: x * (np.floor(x).astype(int) * 3**33 % 10), (np.array([7.0, 8.0]),)),
    "multiply": (lambda x: x * (np.multiply(np.floor(x).astype(int), 3**33) % 10), (np.array([7.0, 8.0]),)),
    "power": (lambda x: x * (int(x) ** 20 % 10), (7.0,)),
    "power_of_array": (lambda x: x * (x.astype(np.int64) ** 20 % 10), (np.array([7.0, 8.0]),)),
    "product": (lambda x: x * (np.prod(x.astype(int) ** 15) % 10), (np.array([7.0, 8.0]),)),
    "running_product": (lambda x: x * (np.cumprod(x.astype(int) ** 15) % 10), (np.array([7.0, 8.0]),)),
    "shifted": (lambda x: x * ((np.argmax(x) + 1 << 53) + 1 & 7), (np.array([7.0, 8.0]),)),
    "compared": (lambda x: 1.0 * x if x == BIG else 2.0 * x, (2.0**53,)),
    "ordered": (lambda x: 1.0 * x if x < BIG else 2.0 * x, (2.0**53,)),
    "compared_array": (lambda x: x * (x.astype(int) < BIG), (np.array([1.0, -1.0]),)),
    "sum": (lambda x: x * (sum([int(x), BIG]) - 2**53), (2.0,)),
    "remainder": (lambda x: x * (BIG % int(x)), (2.0,)),
    "quotient": (lambda x: x * (BIG // int(x) - 2**52), (2.0,)),
}


def stored(n):
    n[0] = BIG
    return n


@pytest.mark.parametrize("name", WHOLE)
def test_integers_keep_their_digits_or_are_refused(name):
    f, args = WHOLE[name]
    wanted = structures.leaves(f(*(np.copy(a)[()] if isinstance(a, np.ndarray) else a for a in args)))
    dots = np.zeros(np.shape(args[0]))
    for take in (lambda: sd.jvp(f)(*args, dots)[0], lambda: sd.jvp(f, backend="numpy")(*args, dots)[0]):
        try:
            found = structures.leaves(take())
        except (sd.TraceError, OverflowError) as refusal:
            assert "2**53" in str(refusal) and ".py:" in str(refusal)
            continue
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def twice(n):
    return (n - 2.0**53) * 2.0


@pytest.mark.parametrize("backend", ["auto", "numpy", "python"])
@pytest.mark.parametrize("before", [1.0, 5, None], ids=str)
@pytest.mark.parametrize("n", [BIG, np.int64(BIG), np.uint64(2**63 + 1), 2**70 + 1, -BIG, 10**400], ids=lambda n: str(n)[:20])
def test_differentiated_integers_that_no_double_holds(backend, before, n):
    g = sd.value_and_grad(twice, backend=backend)
    if before is not None:
        g(before)
    for _ in range(2):
        with pytest.raises(sd.TraceError, match="2\\*\\*53"):
            g(n)
    assert g(2**60) == (twice(2.0**60), 2.0)


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_arrays_of_integers_that_no_double_holds(backend):
    g = sd.value_and_grad(lambda n: np.sum(n * 2.0), backend=backend)
    doors = [g, sd.value_and_grad(lambda p: np.sum(p["n"] * 2.0), backend=backend), sd.vmap(twice, backend=backend),
             sd.derivative(twice, backend=backend), sd.vmap(sd.grad(twice), backend=backend),
             g.compile(np.ones(2), backend=backend), sd.vmap(twice).compile(np.ones(2), backend=backend)]  # fmt: skip
    for k, door in enumerate(doors):
        for first in (np.ones(2), np.array([1, 2**60])):
            door({"n": first} if k == 1 else first)
            for n in (BIGS, BIGS[::-1], np.array([2**63 + 1, 1], np.uint64)):
                with pytest.raises(sd.TraceError, match="2\\*\\*53"):
                    door({"n": n} if k == 1 else n)
