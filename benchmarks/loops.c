/* Values and gradients of loops by hand, reverse mode. Arguments: their numbers, rounds, value and gradient. */

#include <math.h>
#include <stdlib.h>

double rosenbrock(const double *restrict x, long n, double *restrict g) {
    double s = 0;
    g[0] = 0;
    #pragma omp simd reduction(+ : s)
    for (long i = 1; i < n; i++) {
        double a = x[i] - x[i - 1] * x[i - 1], b = 1 - x[i - 1];
        s += 100 * a * a + b * b;
        g[i] = 200 * a;
    }
    #pragma omp simd
    for (long i = 0; i < n - 1; i++) g[i] -= 400 * (x[i + 1] - x[i] * x[i]) * x[i] + 2 * (1 - x[i]);
    return s;
}

double product(const double *x, long n, double *restrict g) {
    double p = 1, back = 1;
    for (long i = 0; i < n; i++) {
        g[i] = p;
        p *= x[i];
    }
    for (long i = n - 1; i >= 0; i--) {
        g[i] *= back;
        back *= x[i];
    }
    return p;
}

double chebyshev(const double *x, long n, double *restrict g) {
    double *tape = malloc(n * sizeof *tape), a = 1, b = *x, da = 0, db = 1, dx = 0;
    for (long i = 0; i < n - 1; i++) {
        tape[i] = b;
        double c = 2 * *x * b - a;
        a = b;
        b = c;
    }
    for (long i = n - 2; i >= 0; i--) {
        double back = da + 2 * *x * db;
        dx += 2 * tape[i] * db;
        da = -db;
        db = back;
    }
    *g = dx + db;
    free(tape);
    return b;
}

double sine_chain(const double *p, long n, double *restrict g) {
    double *tape = malloc(n * sizeof *tape), a = p[0], b = p[1], s = a, ds = 1;
    for (long i = 0; i < n; i++) {
        tape[i] = s;
        s = sin(s * a) + b * i;
    }
    g[0] = g[1] = 0;
    for (long i = n - 1; i >= 0; i--) {
        double inner = ds * cos(tape[i] * a);
        g[0] += inner * tape[i];
        g[1] += ds * i;
        ds = inner * a;
    }
    g[0] += ds;
    free(tape);
    return s;
}

double logistic(const double *p, long n, double *restrict g) {
    double *tape = malloc(n * sizeof *tape), x = p[0], r = p[1], dx = 1, dr = 0;
    for (long i = 0; i < n; i++) {
        tape[i] = x;
        x = r * x * (1 - x);
    }
    for (long i = n - 1; i >= 0; i--) {
        dr += dx * tape[i] * (1 - tape[i]);
        dx *= r * (1 - 2 * tape[i]);
    }
    g[0] = dx;
    g[1] = dr;
    free(tape);
    return x;
}

double pendulum(const double *start, long n, double *restrict g) {
    double *tape = malloc(2 * n * sizeof *tape), q = start[0], p = start[1], h = start[2], dh = 0;
    for (long i = 0; i < n; i++) {
        tape[2 * i] = q;
        tape[2 * i + 1] = p;
        double b = -sin(q), c = p + h / 2 * b, d = -sin(q + h / 2 * p), e = p + h / 2 * d, f = -sin(q + h / 2 * c);
        double k = p + h * f, l = -sin(q + h * e);
        q += h / 6 * (p + 2 * c + 2 * e + k);
        p += h / 6 * (b + 2 * d + 2 * f + l);
    }
    double value = q * q + p, dq = 2 * q, dp = 1;
    for (long i = n - 1; i >= 0; i--) {
        double q0 = tape[2 * i], p0 = tape[2 * i + 1];
        double b = -sin(q0), c = p0 + h / 2 * b, at_d = q0 + h / 2 * p0, d = -sin(at_d), e = p0 + h / 2 * d;
        double at_f = q0 + h / 2 * c, f = -sin(at_f), k = p0 + h * f, at_l = q0 + h * e, l = -sin(at_l);
        double w = h / 6 * dq, v = h / 6 * dp;
        dh += (dq * (p0 + 2 * c + 2 * e + k) + dp * (b + 2 * d + 2 * f + l)) / 6;
        double dk = w, dc = 2 * w, de = 2 * w, db = v, dd = 2 * v, df = 2 * v, in_l = -cos(at_l) * v;
        dp += w + dk;
        df += h * dk;
        dq += in_l;
        de += h * in_l;
        dh += f * dk + e * in_l;
        double in_f = -cos(at_f) * df;
        dq += in_f;
        dc += h / 2 * in_f;
        dp += de;
        dd += h / 2 * de;
        dh += (c * in_f + d * de) / 2;
        double in_d = -cos(at_d) * dd;
        dq += in_d;
        dp += h / 2 * in_d + dc;
        db += h / 2 * dc;
        dh += (p0 * in_d + b * dc) / 2;
        dq -= cos(q0) * db;
    }
    g[0] = dq;
    g[1] = dp;
    g[2] = dh;
    free(tape);
    return value;
}

double filtered(const double *x, long n, double *restrict g) {
    double a = x[n], b = x[n + 1], *y = malloc(n * sizeof *y), s = 0, after = 0, second = 0;
    y[0] = x[0];
    y[1] = x[1];
    for (long i = 2; i < n; i++) y[i] = b * x[i] + a * y[i - 1] - 0.2 * y[i - 2];
    for (long i = 0; i < n; i++) s += y[i] * y[i];
    g[n] = g[n + 1] = 0;
    for (long i = n - 1; i > 1; i--) {
        double d = 2 * y[i] + a * after - 0.2 * second;
        g[i] = b * d;
        g[n] += d * y[i - 1];
        g[n + 1] += d * x[i];
        second = after;
        after = d;
    }
    g[1] = 2 * y[1] + a * after - 0.2 * second;
    g[0] = 2 * y[0] - 0.2 * after;
    free(y);
    return s;
}

double atoms(const double *x, long n, double *restrict g) {
    double energy = 0;
    for (long i = 0; i < 3 * n; i++) g[i] = 0;
    for (long i = 0; i < n; i++)
        for (long j = i + 1; j < n; j++) {
            double a = x[3 * i] - x[3 * j], b = x[3 * i + 1] - x[3 * j + 1], c = x[3 * i + 2] - x[3 * j + 2];
            double r = 1 / (a * a + b * b + c * c), s = r * r * r, slope = -24 * (2 * s * s - s) * r;
            energy += 4 * (s * s - s);
            g[3 * i] += slope * a;
            g[3 * i + 1] += slope * b;
            g[3 * i + 2] += slope * c;
            g[3 * j] -= slope * a;
            g[3 * j + 1] -= slope * b;
            g[3 * j + 2] -= slope * c;
        }
    return energy;
}

double newton(const double *p, long n, double *restrict g) {
    double a = p[0], x = a, tape[64], dx = 1, da = 0;
    int rounds = 0;
    (void)n;
    while (fabs(x * x - a) > p[1] && rounds < 64) {
        tape[rounds++] = x;
        x = 0.5 * (x + a / x);
    }
    while (rounds--) {
        double t = tape[rounds];
        da += 0.5 * dx / t;
        dx *= 0.5 * (1 - a / (t * t));
    }
    *g = dx + da;
    return x;
}
