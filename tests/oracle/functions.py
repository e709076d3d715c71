"""The collections of plain functions: of the benchmarks, behind the golden files, and from scientific code."""

import sys
from pathlib import Path

import numpy as np
import optree

sys.path.append(str(Path(__file__).parents[2]))
import golden_cases
from scientific import kinetics, optimisation, options, orbits, robotics, thermodynamics

from benchmarks.cases import cases

FIELDS = (optimisation, kinetics, orbits, options, robotics, thermodynamics)


def problems():
    """The problems of the benchmarks at their small sizes."""
    for case in cases(quick=True):
        axis = case.axis if case.kind == "batch" else None
        yield f"{case.name} {case.n}", lambda sd, c=case, axis=axis: through(sd, c.f(), c.args, c.wrt, axis)


def scientific():
    """A hundred functions as found in scientific code."""
    for field in FIELDS:
        for f, args in field.EXAMPLES:
            places = tuple(i for i, arg in enumerate(args) if not isinstance(arg, (int, str)))
            name = f"{field.__name__.split('.')[-1]} {getattr(f, '__name__', 'partial')}"
            yield name, lambda sd, f=f, args=args, places=places: through(sd, f, args, places)


def golden():
    """What the golden files are made from; each target is tried on each."""
    made = golden_cases.files(__import__("symdiff"))
    for name in made:
        yield name, lambda sd, name=name: called(*golden_cases.files(sd)[name][:2])


def called(transform, args):
    transform(*args)


def through(sd, f, args, wrt, axis=None):
    """A function through the transforms that its sizes allow; `axis` is where points lie in its arguments."""
    point = args if axis is None else tuple(np.moveaxis(np.asarray(a), axis, 0)[0] for a in args)
    value = np.concatenate([np.ravel(v) for v in optree.tree_leaves(f(*point))])
    size = sum(np.size(leaf) for i in wrt for leaf in optree.tree_leaves(point[i]))
    real = not np.iscomplexobj(value) and value.size == 1
    made = [sd.value_and_grad(f, wrt) if real else sd.jacobian(f, wrt)]
    if axis is not None:
        for transform in (*made, f):
            attempt(sd.vmap(transform, axis), args)
        return
    for transform in made:
        attempt(transform, args)
    attempt(sd.jvp(f, wrt), (*args, tuple(args[i] for i in wrt)))
    if real and size <= 12:
        attempt(sd.hessian(f, wrt), args)
    if size <= 100:
        attempt(sd.vmap(made[0]), tuple(optree.tree_map(lambda leaf: np.stack([leaf, leaf]), arg) for arg in args))


def attempt(transform, args):
    try:
        transform(*args)
    except TimeoutError:
        raise
    except Exception:
        pass  # it is entered
