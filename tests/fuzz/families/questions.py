"""Questions to what stands in rounds, and behind loops, for items of lists, and changes of it: its class, identity, order,
hash, text, items, attributes. The conditions around them are false where a function is traced."""

import linecache
import random
import textwrap
import types
from typing import Any

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

POINTS = (0.25, 1.25, 0.75)  # the first one is traced
HEAD = """
import collections, copy, dataclasses, functools, json, math, operator, weakref
import numpy as np
class Body:
    def __init__(self, m, p): self.m = m; self.p = p
    def go(self): return self.m * 2.0
    @property
    def half(self): return self.m / 2.0
class Equal(Body):
    def __eq__(self, other): return isinstance(other, Equal) and self.m == other.m
    def __hash__(self): return hash(self.m)
    def __lt__(self, other): return self.m < other.m
class Slots:
    __slots__ = ("m", "p")
    __init__, go, half = Body.__init__, Body.go, Body.half
@dataclasses.dataclass
class Data:
    m: float
    p: object
    go, half = Body.go, Body.half
@dataclasses.dataclass(frozen=True)
class Frozen:
    m: float
    p: object
    go, half = Body.go, Body.half
class Pair(collections.namedtuple("Pair", "m p")):
    go, half = Body.go, Body.half
def first(a, *others): return a
def named(m, p=None): return m
R = 40
"""
CLASSES = ("Body", "Equal", "Slots", "Data", "Frozen", "Pair")
KINDS = {name: (name + "({}, 2.0)", "{}.m", name) for name in CLASSES} | {
    "list": ("[{}, 2.0]", "{}[0]", "list"),
    "tuple": ("({}, 2.0)", "{}[0]", "tuple"),
    "dict": ('{{"m": {}, "p": 2.0}}', '{}["m"]', "dict"),
    "deque": ("collections.deque([{}, 2.0])", "{}[0]", "collections.deque"),
    "array": ("np.array([{}, 2.0])", "{}[0]", "np.ndarray"),
    "rows": ("[[{}, 2.0], [2.0, 2.0]]", "{}[0][0]", "list"),
}  # how one is made of a number, which it has, and its class
WAYS = {
    "items": """
        all_ = [<each> for k in range(R)]
        o, s = all_[3], 0.0
        for v in all_:
            s = 0.5 * s + <v> * x[0]
            <asked>
        return s""",
    "items of zip": """
        all_ = [<each> for k in range(R)]
        o, s = all_[3], 0.0
        for v, k in zip(all_, range(R)):
            s = 0.5 * s + <v> * x[0]
            <asked>
        return s""",
    "by number": """
        all_ = [<three>]
        o, s = all_[1], 0.0
        for k in range(R):
            v = all_[k % 3]
            s = 0.5 * s + <v> * x[0]
            <asked>
        return s""",
    "captured": """
        all_ = ALL
        o, s = all_[1], 0.0
        for k in range(R):
            v = all_[k % 3]
            s = 0.5 * s + <v> * x[0]
            <asked>
        return s""",
    "the one before": """
        all_ = [<each> for k in range(R)]
        o, s, v = all_[0], 0.0, all_[0]
        for w in all_:
            s = 0.5 * s + <v> * x[0]
            <asked>
            v = w
        return s""",
    "made anew": """
        all_ = [<three>]
        o, s = all_[1], x[0]
        v = o
        for k in range(R):
            s = 0.5 * s + <v> * x[0]
            <asked>
            v = <made>
        return s""",
    "changed": """
        all_ = [<three>]
        o, v, s = all_[1], all_[0], 0.0
        for k in range(R):
            <v> = <v> * 0.5 + x[0] * 0.25
            s = 0.5 * s + <v> * x[0]
            <asked>
        return s + <v>""",
    "behind": """
        all_ = [<each> for k in range(R)]
        o, s = all_[3], 0.0
        v = o
        for w in all_:
            s = 0.5 * s + <w> * x[0]
            v = w
        if True:
            <asked>
        return s""",
    "grown": """
        all_ = [<three>]
        o, s = all_[1], 0.0
        for k in range(R):
            v = all_[-1]
            s = 0.5 * s + <v> * x[0]
            <asked>
            all_.append(<made>)
        return s""",
}
ASKED = """
    type(v) is type(o) | type(v) is <kind> | isinstance(v, <kind>) | v.__class__ is <kind> | v is o | v is not all_[2]
    v is None | id(v) == id(o) | v in all_[:2] | v == o | v != o | [v] == [o] | (v, 1) == (o, 1) | bool(v) | not v
    hash(v) == hash(o) | v in {o: 1} | len({v, o}) == 1 | repr(v) == repr(o) | str(v)[:3] == "Bod"
    f"{v}" == f"{o}" | all_.index(v) == 1
    len(set(map(id, all_))) > 2 | all_.count(v) == 1 | copy.copy(v) is v | copy.copy(v) == v | copy.deepcopy(v) == v
    weakref.ref(v)() is v | hasattr(v, "m") | hasattr(v, "__iter__") | callable(v) | any(w is v for w in all_) | v < o
    any(w == v for w in all_[:3]) | max(o, v) is o | sorted([o, v])[0] is o | len([w for w in all_[:3] if w is not v])
    next((j for j, w in enumerate(all_[:3]) if w is v), 7) | {id(o): 5}.setdefault(id(v), 3)
    functools.partial(first, v)() is o | functools.lru_cache(lambda z: 1.0)(v) | operator.is_(v, o)
    operator.eq(v, o) | operator.contains([o], v)"""
OF_LISTS = """
    len(v) == 2 | list(v) == list(o) | tuple(v) == (1.0, 2.0) | sum(v) | max(v) | min(v) | list(reversed(v))[0] | v[-1]
    v[np.int64(0)] | v[True] | list(v[:1])[0] | first(*v) | (lambda a, b: a - b)(*v) | np.sum(v) | np.array(v)[0] | len(v * 2)
    len(v + v) | v > o | sum(a * b for a, b in zip(v, o)) | sum(j * a for j, a in enumerate(v)) | 2.0 in v | v.index(2.0)
    v.count(2.0) | math.hypot(*v) | sorted(v)[0] | next(iter(v)) | any(v) | all(a > 0 for a in v) | [a * 2 for a in v][1]
    max(map(abs, v)) | [*v, 1.0][2] | [*v, *o][3] | np.dot(v, o) | len(set(v)) | copy.copy(v)[0] | v.copy()[0]
    len(json.dumps(v)) > 3 | hash(tuple(v)) == hash((1.0, 2.0))"""
OF_DICTS = """
    len(v) == 2 | list(v) == ["m", "p"] | sum(v.values()) | sum(b for a, b in v.items()) | v.get("m", 0.0) | v.get("q", 0.5)
    "m" in v | named(**v) | {**v, "m": 3.0}["p"] | operator.or_(v, {"q": 1.0})["q"] | max(v.values()) | max(v, key=v.get) == "m"
    sorted(v)[0] == "m" | v == {"m": 1.0, "p": 2.0} | v.copy()["m"] | dict(v)["m"]
    "{m}".format(**v) == str(1.0)"""
OF_OBJECTS = """
    v.go() | v.half | getattr(v, "m") | getattr(v, "q", 0.5) | vars(v)["m"] | v.__dict__ is o.__dict__ | v.go == o.go
    operator.attrgetter("m")(v) | operator.methodcaller("go")(v) | type(v).go(v) | dataclasses.asdict(v)["m"]
    len(dataclasses.fields(v)) | dataclasses.replace(v, m=3.0).m | v._replace(m=2.0).m | v._asdict()["m"]"""
CHANGES = """
    <v> = s * 0.5 | w = v; <w> = s * 0.5 | <o> = s * 0.5 | <all_[2]> = s * 0.25 | <v> += x[0] | all_[1] = <made> | all_[0] = v
    all_[0], all_[1] = all_[1], all_[0]"""
CHANGES_OF_LISTS = """
    v.append(s) | v.extend([s]) | s = s + v.pop() | v.insert(0, s) | v.clear() | v.sort() | v.reverse() | v[:] = [s, 2.0]
    v[:1] = [s] | v += [s] | del v[1] | v[0], v[1] = v[1], v[0] | v.remove(2.0)"""
CHANGES_OF_DICTS = """
    v["q"] = s | v.update(m=s) | s = s + v.pop("p") | s = s + v.setdefault("q", 1.0) | del v["p"] | v |= {"m": s}
    v.clear()"""
CHANGES_OF_OBJECTS = """
    setattr(v, "m", s) | v.q = s | del v.p | vars(v)["m"] = s | v.__dict__.update(m=s) | v.__class__ = Body
    object.__setattr__(v, "m", s)"""
_MORE = {
    "dict": (OF_DICTS, CHANGES_OF_DICTS),
    **dict.fromkeys(CLASSES, (OF_OBJECTS, CHANGES_OF_OBJECTS)),
    **dict.fromkeys(("list", "deque", "array", "rows"), (OF_LISTS, CHANGES_OF_LISTS)),
    "tuple": (OF_LISTS, ""),
    "Pair": (OF_OBJECTS + " | " + OF_LISTS, ""),
}


def lines(text: str) -> list[str]:
    """The questions or changes of a table."""
    return [one.strip() for line in text.splitlines() for one in line.split(" | ") if one.strip()]


def program(source: random.Random) -> str:
    """A function that asks what stands for an item, or changes it."""
    kind = source.choice(list(KINDS))
    way = source.choice(list(WAYS))
    make, number, cls = KINDS[kind]
    questions, changes = _MORE[kind]
    asked = f"s = s + 0.25 * float({source.choice(lines(ASKED) + lines(questions))})"
    if way != "captured" and source.random() < 0.4:
        asked = source.choice(lines(CHANGES) + lines(changes))
    if source.random() < 0.8:
        asked = f"if x[0] > 0.5: {asked}"
    places = {name: number.format(name) for name in ("v", "w", "o", "all_[2]")}
    three = ", ".join(make.format(m) for m in ("1.0", "1.0", "3.0"))
    made = make.format("s * 0.5")
    for name, place in {**places, "made": made, "kind": cls}.items():
        asked = asked.replace(f"<{name}>", place)
    body = textwrap.dedent(WAYS[way]).strip()
    for name, text in {**places, "each": make.format("1.0 + k % 4"), "three": three, "made": made, "asked": asked}.items():
        body = body.replace(f"<{name}>", text)
    return f"{HEAD}ALL = [{three}]\n\ndef f(x):\n{textwrap.indent(body, '    ')}\n"


def made(text: str) -> Any:
    """The function of a program, with a module of its own."""
    name = f"questions_{abs(hash(text))}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    module = types.ModuleType("questions")
    exec(compile(text, name, "exec"), vars(module))
    return module.f


def plain(text: str, at: float) -> Any:
    """What the function gives, or raises."""
    try:
        return float(made(text)(np.array([at])))
    except Exception as error:
        return error


def trial(source: random.Random) -> Verdict:
    text = program(source)
    shown = text[text.index("ALL =") :]
    g = sd.value_and_grad(made(text), loops="keep")
    for at in POINTS:
        right = plain(text, at)
        try:
            value, (slope,) = g(np.array([at]))
        except sd.SymdiffError as error:
            return Verdict("refused", str(error))
        except Exception as error:
            if type(error) is type(right):
                continue
            raise Wrong(f"{shown}\nat {at}: {error!r}, {right!r} expected") from error
        if isinstance(right, Exception) or abs(value - right) > 1e-10 * max(1.0, abs(right)):
            raise Wrong(f"{shown}\nat {at}: {value}, {right!r} expected")
        step = 1e-6
        ends = [plain(text, at + h) for h in (-step, step)]
        difference = np.nan if any(isinstance(e, Exception) for e in ends) else (ends[1] - ends[0]) / (2 * step)
        if abs(difference) < 1e3 and abs(slope - difference) > 1e-4 * max(1.0, abs(difference)):
            raise Wrong(f"{shown}\nat {at}: slope {slope}, {difference} expected")
    return RIGHT
