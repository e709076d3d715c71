"""Exported functions take the function's own arguments by its own names, whatever they are, and name the one that is wrong."""

import builtins

import numpy as np
import pytest

import symdiff as sd

# What files call, what they import, what C and Python have of their own, and the files' own variables.
NAMES = """
    bool float abs complex int list tuple range min max len map zip set object type isinstance print np math cmath cp numpy
    ValueError TypeError Exception _ __x n i v0 y0 df f f_grad f_grad_leaves double restrict main select inp result Any NDArray
    out_ _array _numbers _check_out
""".split()
AT = {"number": (0.5, "{n}**3*np_.abs({n})*y[0] + np_.maximum({n}, y[1])*np_.exp({n}) + (1 if {n} > 0 else 2)*y[1]**1.5"),
      "array": (np.array([0.5, -1.5]), "np_.sum({n}**3*np_.abs({n})*y[0] + np_.where({n} > 0, {n}, y)) + np_.exp({n})@y"),
      "raising": (0.5, "np_.sqrt({n})*y[0] if {n} > 0 else checked({n})")}  # fmt: skip
Y = np.array([1.0, 2.0])


def checked(x):
    raise ValueError("not positive")


def written(name, kind, folder):
    """A function whose argument has a name, from a file."""
    path = folder / "written.py"
    path.write_text(f"import numpy as np_\n\n\ndef f({name}, y):\n    return {AT[kind][1].format(n=name)}\n")
    space = {"__name__": "written", "checked": checked}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["f"]


def loaded(g, args, target, folder):
    path = folder / "made.py"
    g.export(path, *args, target=target)
    space = {"__name__": "made"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space[space["__all__"][0]]


@pytest.mark.parametrize("kind", AT)
@pytest.mark.parametrize("name", NAMES)
def test_arguments_keep_their_names(name, kind, tmp_path):
    f, args = written(name, kind, tmp_path), (AT[kind][0], Y)
    g = sd.grad(f)
    for target in ("numpy", "python"):
        made = loaded(g, args, target, tmp_path)
        for found in (made(*args), made(**{name: args[0], "y": Y})):
            np.testing.assert_allclose(found, g(*args), rtol=1e-14)
        if kind == "raising":
            with pytest.raises(ValueError, match="not positive"):
                made(**{name: -1.0, "y": Y})
    if kind != "raising":
        path = tmp_path / "made.py"
        g.export(path, *args, target="cupy")
        compile(path.read_text(), str(path), "exec")


NAMED = "float np min range _ len list repr type getattr ValueError copy dataclasses hashlib _like __dict__ ___ Any".split()


@pytest.mark.parametrize("name", [*NAMED, "f_grad", "_f_grad", "f_grad_leaves"])
def test_structures_and_points_keep_names(name, tmp_path):
    at = {"a": 0.5, "b": Y}
    f = eval(f"lambda {name}, y: {name}['a']**2*y + {name}['b'][0]")
    g = sd.grad(f)
    for target in ("numpy", "python"):
        assert loaded(g, (at, 2.0), target, tmp_path)(**{name: at, "y": 2.0})["a"] == g(at, 2.0)["a"]
    setting = eval(f"lambda y, {name}, *, scale=2.0: y**2*scale*len_({name})", {"len_": len})
    assert loaded(sd.grad(setting), (3.0, "ab"), "python", tmp_path)(3.0, **{name: "ab"}) == 24.0
    many = sd.vmap(sd.grad(written(name, "number", tmp_path)), in_axes=(0, None))
    points = np.array([0.5, 0.7])
    np.testing.assert_allclose(loaded(many, (points, Y), "numpy", tmp_path)(**{name: points, "y": Y}), many(points, Y))


def long(x, y):
    s = x
    for _ in range(9000):
        s = np.sin(s * y) + x
    return s


WRONG = [None, "ab", ["a", "b"], [None, 1.0], object(), {}]


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("wrong", WRONG, ids=["none", "text", "texts", "holes", "object", "dict"])
def test_what_is_no_number_is_refused_by_name(target, wrong, tmp_path):
    for g, args in ((sd.grad(lambda x, y: np.sum(x * y)), (Y, Y)), (sd.grad(lambda x, y: x * y), (1.0, 2.0))):
        made = loaded(g, args, target, tmp_path)
        for place, name in enumerate("xy"):
            given = [*args[:place], wrong, *args[place + 1 :]]
            with pytest.raises((TypeError, ValueError), match=rf"^{name} "):
                made(*given)


def test_loops_refuse_none_by_name(tmp_path):
    g = sd.value_and_grad(long, loops="keep")
    args = 0.3, 0.7
    made = loaded(g, args, "python", tmp_path)
    np.testing.assert_allclose(made(*args)[1], g(*args)[1], rtol=1e-12)
    assert "for " in (tmp_path / "made.py").read_text()
    for place, name in enumerate("xy"):
        with pytest.raises(TypeError, match=f"^{name} is or holds None"):
            made(*args[:place], None, *args[place + 1 :])


def test_the_names_are_names_of_python():
    assert {"bool", "float", "abs", "range"} <= set(NAMES) & set(vars(builtins))


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("length", [80, 82, 120, 300])
def test_names_longer_than_a_line(target, length):
    name = "p" * length
    space = {}
    exec(f"def f({name}): return 2*{name}*{name}", space)
    made = {}
    exec(sd.grad(space["f"]).source(0.75, target=target), made)
    assert made[made["__all__"][0]](0.75) == 3.0
