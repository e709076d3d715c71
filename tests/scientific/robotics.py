"""Robotics and mechanics (Craig; Spong): kinematics, dynamics, rotations, filters, control."""

import math
from collections import namedtuple
from functools import reduce
from itertools import pairwise
from operator import matmul

import numpy as np

Link = namedtuple("Link", "length mass")
Pose = namedtuple("Pose", "x y heading")


def denavit_hartenberg(theta, d, a, alpha):
    ct, st, ca, sa = math.cos(theta), math.sin(theta), math.cos(alpha), math.sin(alpha)
    return np.array([[ct, -st * ca, st * sa, a * ct], [st, ct * ca, -ct * sa, a * st], [0, sa, ca, d], [0, 0, 0, 1]])


PUMA = [(0.0, 0.0, -math.pi / 2), (0.2435, 0.4318, 0.0), (-0.0934, 0.0203, math.pi / 2), (0.4331, 0.0, -math.pi / 2)]


def arm(q):
    frames = [denavit_hartenberg(angle, d, a, alpha) for angle, (d, a, alpha) in zip(q, PUMA, strict=True)]
    return reduce(matmul, frames)[:3, 3]


def planar_arm(q, lengths):
    x = y = angle = 0.0
    for turn, length in zip(q, lengths, strict=True):
        angle += turn
        x, y = x + length * math.cos(angle), y + length * math.sin(angle)
    return Pose(x, y, angle)


def two_link_inverse(x, y, l1=1.0, l2=0.8):
    c2 = (x**2 + y**2 - l1**2 - l2**2) / (2 * l1 * l2)
    if abs(c2) > 1:
        raise ValueError("out of reach")
    elbow = math.acos(c2)
    return math.atan2(y, x) - math.atan2(l2 * math.sin(elbow), l1 + l2 * math.cos(elbow)), elbow


class Quaternion:
    """A rotation, as four numbers."""

    def __init__(self, w, x, y, z):
        self.parts = (w, x, y, z)

    @classmethod
    def about(cls, axis, angle):
        n = math.hypot(*axis)
        return cls(math.cos(angle / 2), *(math.sin(angle / 2) * a / n for a in axis))

    @property
    def conjugate(self):
        w, x, y, z = self.parts
        return Quaternion(w, -x, -y, -z)

    def __mul__(self, other):
        w1, x1, y1, z1 = self.parts
        w2, x2, y2, z2 = other.parts
        return Quaternion(
            w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
            w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
            w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
            w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        )

    def rotate(self, v):
        return (self * Quaternion(0.0, *v) * self.conjugate).parts[1:]


def turned(v, axis, angle):
    return Quaternion.about(axis, angle).rotate(v)


def rodrigues(v, axis, angle):
    k = axis / np.linalg.norm(axis)
    return v * math.cos(angle) + np.cross(k, v) * math.sin(angle) + k * np.dot(k, v) * (1 - math.cos(angle))


def euler_angles(roll, pitch, yaw):
    sr, cr, sp, cp, sy, cy = (f(a) for a in (roll, pitch, yaw) for f in (math.sin, math.cos))
    return [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
    ]


PENDULUM = (Link(1.0, 1.0), Link(0.7, 0.5))


def double_pendulum(state, links=PENDULUM, g=9.81):
    (l1, m1), (l2, m2) = links
    t1, t2, w1, w2 = state
    d = t1 - t2
    den = 2 * m1 + m2 - m2 * math.cos(2 * d)
    a1 = -g * (2 * m1 + m2) * math.sin(t1) - m2 * g * math.sin(t1 - 2 * t2)
    a1 = (a1 - 2 * math.sin(d) * m2 * (w2**2 * l2 + w1**2 * l1 * math.cos(d))) / (l1 * den)
    a2 = 2 * math.sin(d) * (w1**2 * l1 * (m1 + m2) + g * (m1 + m2) * math.cos(t1) + w2**2 * l2 * m2 * math.cos(d)) / (l2 * den)
    return np.array([w1, w2, a1, a2])


def manipulator_energy(q, dq):
    mass = np.zeros((2, 2))
    c = math.cos(q[1])
    mass[0, 0] = 1.5 + 0.8 * c
    mass[0, 1] = mass[1, 0] = 0.3 + 0.4 * c
    mass[1, 1] = 0.3
    potential = 9.81 * (1.2 * math.sin(q[0]) + 0.5 * math.sin(q[0] + q[1]))
    return 0.5 * dq @ mass @ dq + potential


def unicycle(pose, speeds, turns, dt=0.1):
    x, y, heading = pose
    for v, w in zip(speeds, turns, strict=True):
        x += v * math.cos(heading) * dt
        y += v * math.sin(heading) * dt
        heading += w * dt
    return x, y, (heading + math.pi) % (2 * math.pi) - math.pi


def pid(gains, setpoint, steps=15, dt=0.1):
    kp, ki, kd = gains
    position, speed, integral, previous = 0.0, 0.0, 0.0, setpoint
    for _ in range(steps):
        error = setpoint - position
        integral += error * dt
        force = kp * error + ki * integral + kd * (error - previous) / dt
        previous = error
        speed += (force - 0.5 * speed) * dt
        position += speed * dt
    return position


def clipped_control(x, limit):
    u = -3.0 * x[0] - 1.2 * x[1]
    if u > limit:
        u = limit
    elif u < -limit:
        u = -limit
    return x[0] + 0.1 * x[1], x[1] + 0.1 * u


def kalman(measurements, q, r):
    x, p = 0.0, 1.0
    estimates = []
    for z in measurements:
        p = p + q
        gain = p / (p + r)
        x = x + gain * (z - x)
        p = (1 - gain) * p
        estimates.append(x)
    return np.array(estimates)


def friction(v, coulomb=1.0, static=1.5, stribeck=0.1, viscous=0.4):
    return (coulomb + (static - coulomb) * math.exp(-abs(v / stribeck))) * np.sign(v) + viscous * v


def potential_field(position, goal, obstacles, reach=1.5):
    px, py = position
    energy = 0.5 * math.dist(position, goal) ** 2
    for ox, oy in obstacles:
        d = math.hypot(px - ox, py - oy)
        if d < reach:
            energy += 0.5 * (1 / d - 1 / reach) ** 2
    return energy


def minimum_jerk(t, T, start, end):
    s = t / T
    return start + (end - start) * (10 * s**3 - 15 * s**4 + 6 * s**5)


def bezier(t, points):
    row = [np.asarray(p) for p in points]
    while len(row) > 1:
        row = [(1 - t) * a + t * b for a, b in pairwise(row)]
    return row[0]


EXAMPLES = [
    (arm, (np.array([0.3, -0.5, 0.9, 0.2]),)),
    (planar_arm, ([0.3, 0.5, -0.2], [1.0, 0.8, 0.5])),
    (two_link_inverse, (1.1, 0.7)),
    (turned, ([1.0, 0.5, -0.3], [0.2, 0.9, 0.4], 0.7)),
    (rodrigues, (np.array([1.0, 0.5, -0.3]), np.array([0.2, 0.9, 0.4]), 0.7)),
    (euler_angles, (0.2, 0.4, -0.3)),
    (double_pendulum, ([0.5, -0.3, 0.2, 0.9],)),
    (manipulator_energy, (np.array([0.4, 0.9]), np.array([1.0, -0.5]))),
    (unicycle, (Pose(0.0, 0.1, 0.2), [1.0, 1.2, 0.8], [0.3, -0.1, 0.5])),
    (pid, ([2.0, 0.5, 0.3], 1.0)),
    (clipped_control, ([1.0, 0.5], 2.0)),
    (kalman, ([0.9, 1.1, 1.05, 0.97], 0.01, 0.2)),
    (friction, (0.07,)),
    (potential_field, ([0.4, 0.3], [3.0, 2.0], [(1.0, 0.8), (9.0, 9.0)])),
    (minimum_jerk, (0.4, 1.3, 0.2, 1.5)),
    (bezier, (0.3, [[0.0, 0.1], [1.0, 2.0], [3.0, 1.0], [4.0, 0.0]])),
]
