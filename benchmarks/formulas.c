/* Derivatives and values written by hand in C, the counterpart of formulas.py: `x` holds the variables, `y` takes all
   partials in the order of the variables, then the value where it is asked for; `n` is the problem's size, or the number of
   points. Compiled with -O3 -march=native; loops are vectorised by OpenMP's simd. */

#include <complex.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* glibc has these functions in vectors; elsewhere loops over them stay scalar. */
#if defined(__GLIBC__) && defined(__x86_64__) && !defined(__clang__)
__attribute__((simd("notinbranch"))) double exp(double);
__attribute__((simd("notinbranch"))) double sin(double);
__attribute__((simd("notinbranch"))) double cos(double);
#endif

/* Formulas of single points */

#define CUBIC(T, name)                                                                                     \
    static inline void name(const T *x, T *y) {                                                            \
        T a = x[4] * x[4], b = x[5] * x[5], c = x[6] * x[6], d = x[7] * x[7];                              \
        y[0] = x[5] * (3 * d - b);                                                                         \
        y[1] = x[6] * (3 * a - c);                                                                         \
        y[2] = x[7] * (d - 3 * b);                                                                         \
        y[3] = x[4] * (a - 3 * c);                                                                         \
        y[4] = 3 * (x[3] * (a - c) + 2 * x[1] * x[4] * x[6]);                                              \
        y[5] = 3 * (x[0] * (d - b) - 2 * x[2] * x[5] * x[7]);                                              \
        y[6] = 3 * (x[1] * (a - c) - 2 * x[3] * x[4] * x[6]);                                              \
        y[7] = 3 * (x[2] * (d - b) + 2 * x[0] * x[5] * x[7]);                                              \
    }                                                                                                      \
    static inline void name##_value(const T *x, T *y) {                                                    \
        T a = x[4] * x[4], b = x[5] * x[5], c = x[6] * x[6], d = x[7] * x[7];                              \
        y[0] = x[2] * x[7] * (d - 3 * b) - x[0] * x[5] * (b - 3 * d) + x[3] * x[4] * (a - 3 * c)           \
               - x[1] * x[6] * (c - 3 * a) - 1.2342523;                                                    \
    }
CUBIC(double, cubic)
CUBIC(double complex, cubic_complex)

static inline void heart_complex(const double complex *x, double complex *y) {
    double complex p = x[0], q = x[1], z = x[2], w = x[3], zz = z * z, ww = w * w, pz = p * z, qw = q * w;
    y[0] = 1, y[1] = 1, y[2] = 0, y[3] = 0;
    y[4] = z, y[5] = w, y[6] = p, y[7] = q;
    y[8] = zz, y[9] = ww, y[10] = 2 * pz, y[11] = 2 * qw;
    y[12] = zz * z, y[13] = ww * w, y[14] = 3 * pz * z, y[15] = 3 * qw * w;
}

static inline void heart_complex_value(const double complex *x, double complex *y) {
    double complex pz = x[0] * x[2], qw = x[1] * x[3], pzz = pz * x[2], qww = qw * x[3];
    y[0] = x[0] + x[1] - (0.63254 - 1.34534 * I);
    y[1] = pz + qw - (-0.8365348 + 1.7345334 * I);
    y[2] = pzz + qww - (1.352352 - 0.843453 * I);
    y[3] = pzz * x[2] + qww * x[3] - (-0.9563453 + 1.2342523 * I);
}

/* The Jacobian from the complex one: a block [[re, -im], [im, re]] for each of its entries. */
static inline void heart_real(const double *x, double *y) {
    for (int pair = 0; pair < 2; pair++) {
        double a = x[pair], c = x[2 + pair], t = x[4 + pair], v = x[6 + pair], re = 1, im = 0, slope_re = 0, slope_im = 0;
        for (int k = 0; k < 4; k++) {
            double *row = y + 16 * k + pair, *below = row + 8;
            row[0] = re, row[2] = -im, below[0] = im, below[2] = re;
            row[4] = slope_re, row[6] = -slope_im, below[4] = slope_im, below[6] = slope_re;
            slope_re = (k + 1) * (a * re - c * im), slope_im = (k + 1) * (a * im + c * re);
            double old = re;
            re = re * t - im * v, im = old * v + im * t;
        }
    }
}

static inline void heart_real_value(const double *x, double *y) {
    double complex s[4] = {x[0] + x[2] * I, x[1] + x[3] * I, x[4] + x[6] * I, x[5] + x[7] * I};
    heart_complex_value(s, (double complex *)y);
}

static inline void factored(const double *x, double *y) {
    double form = x[0] + 3 * x[1] + 2 * x[2] + 5 * x[3], square = form * form, slope = form * (4 * square - 2);
    y[0] = slope, y[1] = 3 * slope, y[2] = 2 * slope, y[3] = 5 * slope;
    y[4] = square * (square - 1);
}

static inline void factored_value(const double *x, double *y) {
    double form = x[0] + 3 * x[1] + 2 * x[2] + 5 * x[3], square = form * form;
    y[0] = square * (square - 1);
}

static inline void f10(const double *x, double *y) {
    double a = x[0] + x[1] + x[3] + x[6], b = x[0] + x[2] + x[4] + x[7], c = x[1] + x[2] + x[5] + x[8];
    double d = x[3] + x[4] + x[5] + x[9], e = x[6] + x[7] + x[8] + x[9];
    double p = 24 * (a * a), q = 24 * (b * b), r = 24 * (c * c), s = 24 * (d * d), t = 24 * (e * e);
    y[10] = a * p + b * q + c * r + d * s + e * t;
    p *= 3, q *= 3, r *= 3, s *= 3, t *= 3;
    y[0] = p + q, y[1] = p + r, y[2] = q + r, y[3] = p + s, y[4] = q + s;
    y[5] = r + s, y[6] = p + t, y[7] = q + t, y[8] = r + t, y[9] = s + t;
}

static inline void f10_value(const double *x, double *y) {
    double a = x[0] + x[1] + x[3] + x[6], b = x[0] + x[2] + x[4] + x[7], c = x[1] + x[2] + x[5] + x[8];
    double d = x[3] + x[4] + x[5] + x[9], e = x[6] + x[7] + x[8] + x[9];
    y[0] = 24 * (a * a * a + b * b * b + c * c * c + d * d * d + e * e * e);
}

static inline void logistic(const double *x, double *y) {
    double s = 1 / (1 + exp(-x[0]));
    y[0] = s * (1 - s), y[1] = s;
}

static inline void logistic_value(const double *x, double *y) { y[0] = 1 / (1 + exp(-x[0])); }

static inline void exponential(const double *x, double *y) { y[0] = y[1] = exp(x[0]); }

static inline void exponential_value(const double *x, double *y) { y[0] = exp(x[0]); }

static inline void sine(const double *x, double *y) { y[0] = cos(x[0]), y[1] = sin(x[0]); }

static inline void sine_value(const double *x, double *y) { y[0] = sin(x[0]); }

/* A real variable, so the four parts are real polynomials. */
static inline void complex_polynomial(const double *x, double *y) {
    double square = x[0] * x[0];
    y[0] = 3 * square + 0.5, y[1] = 6 * square - 1;
    y[2] = (square + 0.5) * x[0], y[3] = (2 * square - 1) * x[0] + 2;
}

static inline void complex_polynomial_value(const double *x, double *y) {
    double square = x[0] * x[0];
    y[0] = (square + 0.5) * x[0], y[1] = (2 * square - 1) * x[0] + 2;
}

static inline void real_through_complex(const double *x, double *y) {
    double c = cos(x[0]), s = sin(x[0]);
    y[0] = 2 * (x[0] + c - x[0] * s), y[1] = 1 + x[0] * (x[0] + 2 * c);
}

static inline void real_through_complex_value(const double *x, double *y) { y[0] = 1 + x[0] * (x[0] + 2 * cos(x[0])); }

static inline void branches(const double *x, double *y) {
    double both = x[0] + x[1], e = exp(both + x[3]), value = (both + x[2]) * e;
    y[0] = y[1] = e + value, y[2] = e, y[3] = y[4] = value;
}

static inline void branches_value(const double *x, double *y) {
    double both = x[0] + x[1];
    y[0] = (both + x[2]) * exp(both + x[3]);
}

/* One point, and many: points first (a point after another), points last (a row for each variable). */

#define POINT(T, name) \
    void name##_point(long n, const T *restrict x, T *restrict y) { (void)n, name(x, y); }

#define POINTS_FIRST(T, name, ins, outs)                                               \
    void name##_first(long n, const T *restrict x, T *restrict y) {                    \
        _Pragma("omp simd") for (long i = 0; i < n; i++) name(x + ins * i, y + outs * i); \
    }

#define POINTS_LAST(T, name, ins, outs)                             \
    void name##_last(long n, const T *restrict x, T *restrict y) {  \
        _Pragma("omp simd") for (long i = 0; i < n; i++) {          \
            T at[ins], found[outs];                                 \
            for (int k = 0; k < ins; k++) at[k] = x[k * n + i];     \
            name(at, found);                                        \
            for (int k = 0; k < outs; k++) y[k * n + i] = found[k]; \
        }                                                           \
    }

#define LAYOUTS(T, name, ins, outs, values)    \
    POINT(T, name)                             \
    POINT(T, name##_value)                     \
    POINTS_FIRST(T, name, ins, outs)           \
    POINTS_FIRST(T, name##_value, ins, values) \
    POINTS_LAST(T, name, ins, outs)            \
    POINTS_LAST(T, name##_value, ins, values)

LAYOUTS(double, cubic, 8, 8, 1)
LAYOUTS(double complex, cubic_complex, 8, 8, 1)
LAYOUTS(double, factored, 4, 5, 1)
LAYOUTS(double, f10, 10, 11, 1)
LAYOUTS(double, logistic, 1, 2, 1)
LAYOUTS(double, exponential, 1, 2, 1)
LAYOUTS(double, sine, 1, 2, 1)
LAYOUTS(double, real_through_complex, 1, 2, 1)
LAYOUTS(double, branches, 4, 5, 1)
POINT(double complex, heart_complex)
POINT(double complex, heart_complex_value)
POINT(double, heart_real)
POINT(double, heart_real_value)
POINT(double, complex_polynomial)
POINT(double, complex_polynomial_value)

/* Problems of size n */

void rosenbrock_point(long n, const double *restrict x, double *restrict y) {
    double gap = 1 - x[0], rest = x[1] - x[0] * x[0], total = gap * gap + 100 * (rest * rest);
    y[0] = -2 * (gap + x[0] * (200 * rest));
#pragma omp simd private(gap, rest) reduction(+ : total)
    for (long i = 1; i < n - 1; i++) {
        double before = x[i] - x[i - 1] * x[i - 1];
        gap = 1 - x[i], rest = x[i + 1] - x[i] * x[i];
        total += gap * gap + 100 * (rest * rest);
        y[i] = 200 * before - 2 * (gap + x[i] * (200 * rest));
    }
    y[n - 1] = 200 * (x[n - 1] - x[n - 2] * x[n - 2]);
    y[n] = total;
}

void rosenbrock_value_point(long n, const double *restrict x, double *restrict y) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (long i = 0; i < n - 1; i++) {
        double gap = 1 - x[i], rest = x[i + 1] - x[i] * x[i];
        total += gap * gap + 100 * (rest * rest);
    }
    y[0] = total;
}

void chebyshev_point(long n, const double *restrict x, double *restrict y) {
    double twice = 2 * x[0], before = 1, now = x[0], slope_before = 0, slope = 1;
    for (long k = 1; k < n; k++) {
        double next = twice * now - before, next_slope = 2 * now + twice * slope - slope_before;
        before = now, now = next, slope_before = slope, slope = next_slope;
    }
    y[0] = slope, y[1] = now;
}

void chebyshev_value_point(long n, const double *restrict x, double *restrict y) {
    double twice = 2 * x[0], before = 1, now = x[0];
    for (long k = 1; k < n; k++) {
        double next = twice * now - before;
        before = now, now = next;
    }
    y[0] = now;
}

void product_point(long n, const double *restrict x, double *restrict y) {
    double left = 1, right = x[n - 1];
    for (long i = 0; i < n; i++) y[i] = left, left *= x[i];
    y[n] = left;
    for (long i = n - 2; i >= 0; i--) y[i] *= right, right *= x[i];
}

void product_value_point(long n, const double *restrict x, double *restrict y) {
    double total = 1;
#pragma omp simd reduction(* : total)
    for (long i = 0; i < n; i++) total *= x[i];
    y[0] = total;
}

void sine_chain_point(long n, const double *restrict x, double *restrict y) {
    double z = x[0], slope = 1;
    for (long k = 0; k < n; k++) slope *= cos(z), z = sin(z);
    y[0] = slope, y[1] = z;
}

void sine_chain_value_point(long n, const double *restrict x, double *restrict y) {
    double z = x[0];
    for (long k = 0; k < n; k++) z = sin(z);
    y[0] = z;
}

void lse_point(long n, const double *restrict x, double *restrict y) {
    double top = x[0], total = 0;
#pragma omp simd reduction(max : top)
    for (long i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
#pragma omp simd reduction(+ : total)
    for (long i = 0; i < n; i++) y[i] = exp(x[i] - top), total += y[i];
    double scale = 1 / total;
#pragma omp simd
    for (long i = 0; i < n; i++) y[i] *= scale;
    y[n] = top + log(total);
}

void lse_value_point(long n, const double *restrict x, double *restrict y) {
    double top = x[0], total = 0;
#pragma omp simd reduction(max : top)
    for (long i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
#pragma omp simd reduction(+ : total)
    for (long i = 0; i < n; i++) total += exp(x[i] - top);
    y[0] = top + log(total);
}

/* (A + B)(A B)^T of 10 x 10 matrices and its Jacobians by A and by B; x holds A, then B. */
enum { SIDE = 10, CELLS = SIDE * SIDE };

void matrix_function_value_point(long n, const double *restrict x, double *restrict y) {
    (void)n;
    const double *A = x, *B = x + CELLS;
    double M[CELLS] = {0};
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++)
            for (int j = 0; j < SIDE; j++) M[SIDE * i + j] += A[SIDE * i + k] * B[SIDE * k + j];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double sum = 0;
            for (int k = 0; k < SIDE; k++) sum += (A[SIDE * i + k] + B[SIDE * i + k]) * M[SIDE * j + k];
            y[SIDE * i + j] = sum;
        }
}

void matrix_function_point(long n, const double *restrict x, double *restrict y) {
    (void)n;
    const double *A = x, *B = x + CELLS;
    double M[CELLS] = {0}, S[CELLS], SB[CELLS] = {0};
    for (int i = 0; i < CELLS; i++) S[i] = A[i] + B[i];
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++)
            for (int j = 0; j < SIDE; j++) {
                M[SIDE * i + j] += A[SIDE * i + k] * B[SIDE * k + j];
                SB[SIDE * i + j] += S[SIDE * i + k] * B[SIDE * j + k];
            }
    memset(y, 0, sizeof(double) * CELLS * CELLS);
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double *by_a = y + CELLS * (SIDE * i + j), *by_b = by_a + CELLS * CELLS;
            for (int p = 0; p < SIDE; p++)
                for (int q = 0; q < SIDE; q++) by_b[SIDE * p + q] = A[SIDE * j + p] * S[SIDE * i + q];
            for (int q = 0; q < SIDE; q++) {
                by_a[SIDE * i + q] += M[SIDE * j + q];
                by_a[SIDE * j + q] += SB[SIDE * i + q];
                by_b[SIDE * i + q] += M[SIDE * j + q];
            }
        }
}

/* What no program can do without: a copy past the caches, into memory that nobody reads soon. */
void streamed_copy_point(long n, const double *restrict x, double *restrict y) {
#if defined(__SSE2__)
    long k = 0;
    for (; k < n && ((size_t)(y + k) & 15); k++) y[k] = x[k];
    for (; k + 2 <= n; k += 2) _mm_stream_pd(y + k, _mm_loadu_pd(x + k));
    for (; k < n; k++) y[k] = x[k];
    _mm_sfence();
#else
    memcpy(y, x, sizeof(double) * n);
#endif
}
