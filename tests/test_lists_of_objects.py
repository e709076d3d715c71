"""Loops whose rounds change attributes of the objects, or keys of the dicts, of a list: each attribute of all is one array in
them; against the plain functions, whoever else knows the objects and their arrays.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import symdiff as sd

N = 12
X = np.sin(np.arange(N) * 1.7) * 0.5 + 0.6


class Body:
    def __init__(self, place, speed, mass=1.0):
        self.place = place
        self.speed = speed
        self.mass = mass
        self.steps = 0

    def kick(self, force, time):
        self.speed = self.speed + force * (time / self.mass)

    def drift(self, time):
        self.place = self.place + self.speed * time
        self.steps += 1

    @property
    def energy(self):
        return 0.5 * self.mass * np.sum(self.speed**2)

    @energy.setter
    def energy(self, value):
        self.speed = self.speed * 0.5 + value


class Slotted:
    __slots__ = ("place", "speed")

    def __init__(self, place, speed):
        self.place = place
        self.speed = speed


@dataclass
class World:
    bodies: list

    def step(self, time):
        for body in self.bodies:
            force = 0.0 * body.place
            for other in self.bodies:
                apart = other.place - body.place
                force = force + apart / (0.1 + np.sum(apart**2)) ** 1.5
            body.kick(force, time)
        for body in self.bodies:
            body.drift(time)


def flat(x, speed=0.1):
    return [Body(x[k], speed * k, 1.0 + 0.1 * k) for k in range(N)]


def in_the_plane(x):
    return [Body(np.array([x[k], x[k - 1]]), np.zeros(2), 1.0 + 0.1 * k) for k in range(N)]


def summed(bodies):
    return sum((k + 1) * np.sum(b.place) + 2 * np.sum(b.speed) + b.steps for k, b in enumerate(bodies))


def numbers(x):
    bodies = flat(x)
    for _ in range(20):
        for b in bodies:
            b.speed -= 0.1 * b.place
            b.place += 0.1 * b.speed
    return summed(bodies)


def pairs_by_number(x):
    bodies = flat(x)
    for _ in range(10):
        for i in range(N):
            force = 0.0
            for j in range(N):
                if i != j:
                    apart = bodies[j].place - bodies[i].place
                    force += apart / (1.0 + apart**2)
            bodies[i].speed += 0.1 * force
        for b in bodies:
            b.drift(0.1)
    return summed(bodies)


def arrays_and_methods(x):
    world = World(in_the_plane(x))
    for _ in range(10):
        world.step(0.1)
    return summed(world.bodies)


def dicts_beside_each_other(x):
    cells = [{"heat": x[k], "count": 0} for k in range(N)]
    for _ in range(10):
        for k in range(N):
            one, other = cells[k], cells[(k + 1) % N]
            flow = 0.1 * (other["heat"] - one["heat"])
            one["heat"] += flow
            other["heat"] -= flow
            one["count"] += 1
    return sum(c["heat"] ** 2 * c["count"] for c in cells)


def slots(x):
    rods, bodies = [Slotted(x[k], 0.1) for k in range(N)], flat(x)
    for _ in range(10):
        for k, rod in enumerate(rods):
            rod.place, rod.speed = rod.speed, 0.9 * rod.place
            bodies[k - 1].place += bodies[k].energy
    return sum(rod.place + 2 * rod.speed for rod in rods) + summed(bodies)


class Hidden:
    def __init__(self, value):
        self._item = value
        self.change = 0.1
        self.read = 0.2

    def step(self):
        self._item += 0.1 * self.change
        self.change *= 0.9
        self.read -= self._item


def names_of_any_kind(x):
    hidden = [Hidden(v) for v in x]
    for _ in range(10):
        for h in hidden:
            h.step()
    return sum(h._item + 2 * h.change + 3 * h.read for h in hidden)


def single_ones_by_name(x):
    bodies = flat(x)
    first, last = bodies[0], bodies[-1]
    for k in range(N):
        bodies[k].place += 0.5 * first.place
        last.speed = last.speed * 0.5 + bodies[k].place
        first.place *= 0.9
    return summed(bodies) + first.place * last.speed


def one_that_may_be_two(x):
    bodies = flat(x)
    for i in range(N):
        for j in range(N):
            one, other = bodies[i], bodies[(i * j) % N]
            other.place += 0.1
            one.place *= 0.9
            other.speed += one.place
    return summed(bodies)


def on_conditions(x):
    bodies = flat(x)
    for _ in range(10):
        for b in bodies:
            if b.place > 0.7:
                b.place *= 0.8
            elif b.speed < 0.5:
                b.speed += 0.1
    return summed(bodies)


def arrays_change_in_place(x):
    bodies = in_the_plane(x)
    for _ in range(10):
        for b in bodies:
            b.speed -= 0.1 * b.place
            b.place += 0.1 * b.speed
    bodies[0].place[0] = 0.5
    return summed(bodies)


KEPT = (
    numbers, pairs_by_number, arrays_and_methods, dicts_beside_each_other, slots, names_of_any_kind, single_ones_by_name,
    one_that_may_be_two, on_conditions, arrays_change_in_place,
)  # fmt: skip


def arrays_under_other_names(x):
    bodies = in_the_plane(x)
    known = bodies[1].place
    for b in bodies:
        b.place += 0.1
    return summed(bodies) + np.sum(known)


def one_array_for_all(x):
    nothing = np.zeros(2)
    bodies = [Body(x[k : k + 2].sum() * np.ones(2), nothing) for k in range(N)]
    for b in bodies:
        b.speed += 0.1 * b.place
    return summed(bodies) + np.sum(nothing)


def arrays_that_become_one(x):
    bodies = in_the_plane(x)
    for _ in range(3):
        for b in bodies:
            b.speed = b.place
    bodies[0].speed[0] = 0.5
    return summed(bodies)


def arrays_that_others_may_have(x):
    shared = np.array([x[0], 0.3])
    bodies = [Body(shared, 0.1 * np.ones(2)) for _ in range(N)]
    for b in bodies[3:]:
        b.kick(b.place, 0.1)
    for b in bodies:
        if b.speed[0] > 0.11:
            b.place = b.place + b.speed
    shared += 1.0
    return summed(bodies)


def cells_of_arrays(x):
    bodies = in_the_plane(x)
    for _ in range(3):
        for b in bodies:
            b.speed[0] += 0.1 * b.place[1]
    return summed(bodies)


def others_in_order(x):
    bodies = flat(x)
    turned = bodies[::-1]
    for k, b in enumerate(turned):
        bodies[k].place += 0.5 * b.place
    return summed(bodies)


def one_more_in_a_round(x):
    bodies = flat(x)
    for k in range(N):
        bodies[k].place += 0.1
        bodies.append(Body(x[k], 0.2))
    return summed(bodies)


def properties(x):
    bodies = flat(x)
    for _ in range(10):
        for k in range(N):
            bodies[k].energy = bodies[k - 1].place * 0.1
    return summed(bodies)


def assigned_by_own_code(x):
    class Clipped:
        def __init__(self, place):
            self.place = place

        def __setattr__(self, name, value):
            object.__setattr__(self, name, 0.5 * value)

    rods = [Clipped(x[k]) for k in range(N)]
    for _ in range(3):
        for rod in rods:
            rod.place = rod.place + 1.0
    return sum((k + 1) * rod.place for k, rod in enumerate(rods))


WRITTEN = (
    arrays_under_other_names, one_array_for_all, arrays_that_become_one, arrays_that_others_may_have, cells_of_arrays,
    others_in_order, one_more_in_a_round, properties, assigned_by_own_code,
)  # fmt: skip


@pytest.mark.parametrize("f", (*KEPT, *WRITTEN), ids=lambda f: f.__name__)
def test_objects_that_rounds_change(f):
    told = sd.trace(f, X, loops="keep").notes["loops"]
    assert f not in KEPT or not {v for v in told.values() if "short" not in v and "few" not in v and v != "kept"}, told
    df, direction = sd.value_and_grad(f, loops="keep"), np.random.default_rng(3).normal(size=N)
    for x in (X, X[::-1] + 0.05):
        value, slope = df(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-11)
        rise = (f(x + 1e-6 * direction) - f(x - 1e-6 * direction)) / 2e-6
        np.testing.assert_allclose(np.sum(slope * direction), rise, rtol=1e-5, atol=1e-6)


def test_sixty_bodies_are_few_bindings():
    def f(x):
        bodies = [Body(x[k], 0.0) for k in range(60)]
        for _ in range(20):
            for one in bodies:
                one.speed += 0.01 * sum((other.place - one.place) / (1.0 + (other.place - one.place) ** 2) for other in bodies)
            for one in bodies:
                one.drift(0.1)
        return sum(one.place**2 for one in bodies)

    x = np.sin(np.arange(60.0))
    graph = sd.value_and_grad(f).graph(x)
    assert len(graph.bindings) < 60
    assert graph(x)[0] == pytest.approx(f(x), rel=1e-11)
