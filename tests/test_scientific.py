"""A hundred functions as found in scientific code are traced unchanged: the plain call's value, and its slope."""

import numpy as np
import optree
import pytest
from scientific import kinetics, optimisation, options, orbits, robotics, thermodynamics

import symdiff as sd

FIELDS = (optimisation, kinetics, orbits, options, robotics, thermodynamics)
EXAMPLES = {
    f"{m.__name__.split('.')[-1]}-{getattr(f, '__name__', 'partial')}": (f, args) for m in FIELDS for f, args in m.EXAMPLES
}


def flat(value):
    return np.concatenate([np.ravel(v) for v in optree.tree_leaves(value)])


def tangent_of(leaf, rng):
    shape = np.shape(leaf)
    return rng.normal(size=shape) * np.maximum(np.abs(leaf), 0.1) if shape else float(rng.normal() * max(abs(leaf), 0.1))


def moved(args, tangents, places, step):
    found = list(args)
    for place, tangent in zip(places, tangents, strict=True):
        found[place] = optree.tree_map(lambda a, t: a + step * t, args[place], tangent)
    return found


def test_there_are_a_hundred():
    assert len(EXAMPLES) == 100


@pytest.mark.parametrize("name", EXAMPLES)
def test_value_and_slope(name):
    f, args = EXAMPLES[name]
    rng = np.random.default_rng(len(name))
    places = tuple(i for i, arg in enumerate(args) if not isinstance(arg, (int, str)))
    tangents = tuple(optree.tree_map(lambda leaf: tangent_of(leaf, rng), args[i]) for i in places)
    pushed = sd.jvp(f, argnums=places)
    assert not pushed.program(*args, tangents).by_kind().keys() & {"isfinite", "isinf"}
    value, slope = pushed(*args, tangents)
    np.testing.assert_allclose(flat(value), flat(f(*args)), rtol=1e-12)
    step = 1e-5
    ahead, behind = (flat(f(*moved(args, tangents, places, s))) for s in (step, -step))
    numeric = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(flat(slope), numeric, rtol=1e-5, atol=1e-7 * max(1.0, np.max(np.abs(flat(value)))))
