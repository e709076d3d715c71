"""Orbital mechanics and astronomy (Vallado; Meeus): anomalies, elements, transfers, time and coordinates."""

import cmath
import math
from math import atan2, cos, degrees, pi, radians, sin, sqrt

import numpy as np
from numpy import cross, dot

MU = 398600.4418
EARTH = {"radius": 6378.137, "flattening": 1 / 298.257223563, "j2": 1.08262668e-3}


def kepler(mean_anomaly, e, tolerance=1e-12):
    E = mean_anomaly if e < 0.8 else pi
    while True:
        step = (E - e * sin(E) - mean_anomaly) / (1.0 - e * cos(E))
        E = E - step
        if abs(step) < tolerance:
            return E


def kepler_fixed(mean_anomaly, e):
    E = mean_anomaly + e * sin(mean_anomaly)
    for _ in range(8):
        E -= (E - e * sin(E) - mean_anomaly) / (1.0 - e * cos(E))
    return E


def true_anomaly(E, e):
    return 2.0 * atan2(sqrt(1.0 + e) * sin(E / 2.0), sqrt(1.0 - e) * cos(E / 2.0))


def vis_viva(r, a, mu=MU):
    return sqrt(mu * (2.0 / r - 1.0 / a))


def hohmann(r1, r2, mu=MU):
    first = sqrt(mu / r1) * (sqrt(2.0 * r2 / (r1 + r2)) - 1.0)
    second = sqrt(mu / r2) * (1.0 - sqrt(2.0 * r1 / (r1 + r2)))
    return abs(first) + abs(second), pi * sqrt((r1 + r2) ** 3 / (8.0 * mu))


def state_from_elements(a, e, i, raan, argument, nu):
    p = a * (1.0 - e**2)
    r = p / (1.0 + e * cos(nu))
    position = np.array([r * cos(nu), r * sin(nu), 0.0])
    velocity = np.array([-sin(nu), e + cos(nu), 0.0]) * sqrt(MU / p)
    turn = rotation_z(raan) @ rotation_x(i) @ rotation_z(argument)
    return turn @ position, turn @ velocity


def rotation_z(angle):
    c, s = cos(angle), sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def rotation_x(angle):
    c, s = cos(angle), sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def elements_from_state(r, v):
    h = cross(r, v)
    distance = sqrt(dot(r, r))
    eccentricity = (cross(v, h) / MU) - r / distance
    energy = dot(v, v) / 2.0 - MU / distance
    inclination = math.acos(h[2] / sqrt(dot(h, h)))
    return -MU / (2.0 * energy), sqrt(dot(eccentricity, eccentricity)), degrees(inclination)


def stumpff(z):
    if z > 1e-6:
        s = sqrt(z)
        return (1.0 - cos(s)) / z, (s - sin(s)) / s**3
    if z < -1e-6:
        s = sqrt(-z)
        return (math.cosh(s) - 1.0) / -z, (math.sinh(s) - s) / s**3
    return 0.5 - z / 24.0, 1.0 / 6.0 - z / 120.0


def gravity_j2(position):
    x, y, z = position
    r = math.hypot(x, y, z)
    factor = 1.5 * EARTH["j2"] * MU * EARTH["radius"] ** 2 / r**5
    ratio = 5.0 * z**2 / r**2
    acceleration = [-MU * c / r**3 for c in position]
    for k, c in enumerate((x * (ratio - 1.0), y * (ratio - 1.0), z * (ratio - 3.0))):
        acceleration[k] += factor * c
    return acceleration


def geodetic(x, y, z):
    a, f = EARTH["radius"], EARTH["flattening"]
    e2 = f * (2.0 - f)
    p = math.hypot(x, y)
    latitude = atan2(z, p * (1.0 - e2))
    for _ in range(5):
        n = a / sqrt(1.0 - e2 * sin(latitude) ** 2)
        latitude = atan2(z + e2 * n * sin(latitude), p)
    return degrees(latitude), degrees(atan2(y, x)), p / cos(latitude) - n


def great_circle(lat1, lon1, lat2, lon2):
    phi1, phi2 = map(radians, (lat1, lat2))
    half = sin((phi2 - phi1) / 2) ** 2 + cos(phi1) * cos(phi2) * sin(radians(lon2 - lon1) / 2) ** 2
    return 2.0 * EARTH["radius"] * math.asin(sqrt(half))


def leapfrog(x, y, vx, vy, h=0.05, steps=20):
    ax, ay = -x / (x * x + y * y) ** 1.5, -y / (x * x + y * y) ** 1.5
    for _ in range(steps):
        vx, vy = vx + h / 2 * ax, vy + h / 2 * ay
        x, y = x + h * vx, y + h * vy
        r3 = math.pow(x * x + y * y, 1.5)
        ax, ay = -x / r3, -y / r3
        vx, vy = vx + h / 2 * ax, vy + h / 2 * ay
    return x, y, vx, vy


def three_body_energy(positions, masses):
    energy = 0.0
    for i, a in enumerate(positions):
        for j, b in enumerate(positions):
            if i < j:
                energy -= masses[i] * masses[j] / math.dist(a, b)
    return energy


def atmosphere(altitude):
    table = [
        (0.0, 1.225, 7.249),
        (25.0, 3.899e-2, 6.349),
        (30.0, 1.774e-2, 6.682),
        (40.0, 3.972e-3, 7.554),
        (50.0, 1.057e-3, 8.382),
    ]
    for base, density, scale in reversed(table):
        if altitude >= base:
            return density * math.exp(-(altitude - base) / scale)
    return table[0][1]


def complex_flyby(b, v):
    z = complex(b, 0.5)
    w = cmath.exp(1j * cmath.phase(z)) * cmath.sqrt(z * v)
    return abs(w + 1.0 / z)


def solar_longitude(days):
    g = radians((357.529 + 0.98560028 * days) % 360.0)
    q = (280.459 + 0.98564736 * days) % 360.0
    return (q + 1.915 * sin(g) + 0.020 * sin(2 * g)) % 360.0


def rocket(dv, isp, ratio, stages=2):
    mass = 1.0
    for _ in range(stages):
        k = math.exp(-dv / stages / (isp * 9.80665))
        mass *= (k - ratio) / (1.0 - ratio)
    return math.log(mass)


EXAMPLES = [
    (kepler, (1.2, 0.3)),
    (kepler_fixed, (1.2, 0.3)),
    (true_anomaly, (1.4, 0.3)),
    (vis_viva, (7000.0, 8000.0)),
    (hohmann, (7000.0, 42164.0)),
    (state_from_elements, (8000.0, 0.1, 0.5, 1.0, 0.7, 2.0)),
    (elements_from_state, (np.array([7000.0, 500.0, 300.0]), np.array([-0.5, 7.4, 1.0]))),
    (stumpff, (1.3,)),
    (gravity_j2, ([6800.0, 900.0, 1500.0],)),
    (geodetic, (4000.0, 1200.0, 4800.0)),
    (great_circle, (48.1, 11.6, 40.7, -74.0)),
    (leapfrog, (1.0, 0.1, -0.1, 0.9)),
    (three_body_energy, ([[0.0, 0.1, 0.2], [1.0, 0.3, -0.2], [0.4, 1.2, 0.8]], [1.0, 2.0, 0.5])),
    (atmosphere, (33.0,)),
    (complex_flyby, (1.2, 0.7)),
    (solar_longitude, (8123.4,)),
    (rocket, (9000.0, 320.0, 0.08)),
]
