// What CUDA device code needs to run on a CPU: one block at a time, its threads as fibres that meet in __syncthreads and in
// __syncwarp, where each waits until all others of the block have come as far or have ended.
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __shared__ static

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) int4 {
    int x, y, z, w;
};
static inline void __stcs(int4 *to, int4 value) { *to = value; }
template <typename T> static inline T min(T x, T y) { return x < y ? x : y; }
// Functions of CUDA's that libm has not.
static inline double sign_of_pi(double x) { return fmod(rint(x), 2.0) == 0.0 ? 1.0 : -1.0; }
static inline double cospi(double x) { return sign_of_pi(x) * cos(M_PI * (x - rint(x))); }
static inline double sinpi(double x) { return sign_of_pi(x) * sin(M_PI * (x - rint(x))); }
static inline double normcdf(double x) { return erfc(-x / M_SQRT2) / 2; }
static inline double erfcx(double x)
{
    if (x < 25)
        return exp(x * x) * erfc(x);
    const double r = 1 / (2 * x * x);
    return (1 - r * (1 - 3 * r * (1 - 5 * r))) / (x * sqrt(M_PI));
}
static inline double cyl_bessel(double x, int order)
{
    double term = order ? x / 2 : 1, sum = term;
    for (int k = 1; k < 1000; ++k)
        sum += term *= x * x / (4.0 * k * (k + order));
    return sum;
}
static inline double cyl_bessel_i0(double x) { return cyl_bessel(x, 0); }
static inline double cyl_bessel_i1(double x) { return cyl_bessel(x, 1); }
static inline float erfcxf(float x) { return (float)erfcx(x); }
static inline float cyl_bessel_i0f(float x) { return (float)cyl_bessel_i0(x); }
static inline float cyl_bessel_i1f(float x) { return (float)cyl_bessel_i1(x); }
static inline float cospif(float x) { return (float)cospi(x); }
static inline float sinpif(float x) { return (float)sinpi(x); }
static inline float normcdff(float x) { return (float)normcdf(x); }

static const int FIBRES = 1024;
static const size_t STACK = 65536;
static ucontext_t fibres[FIBRES]; // to begin with; later switches are jumps, which need no system call
static jmp_buf scheduler, places[FIBRES];
static char *stacks;
static bool finished[FIBRES];
static int current;
static void (*entry)(void **);
static void **passed;

static void __syncthreads()
{
    if (!_setjmp(places[current]))
        _longjmp(scheduler, 1);
}

static void __syncwarp() { __syncthreads(); }

static void fibre()
{
    entry(passed);
    finished[current] = true;
    _longjmp(scheduler, 1);
}

static void run_block(int threads)
{
    if (!stacks)
        stacks = (char *)malloc(FIBRES * STACK);
    for (current = 0; current < threads; ++current) {
        finished[current] = false;
        getcontext(&fibres[current]);
        fibres[current].uc_stack.ss_sp = stacks + current * STACK;
        fibres[current].uc_stack.ss_size = STACK;
        fibres[current].uc_link = 0;
        makecontext(&fibres[current], fibre, 0);
    }
    static int left;
    static bool begun;
    for (left = threads, begun = false; left; begun = true)
        for (current = 0, left = 0; current < threads; ++current)
            if (!finished[current]) {
                threadIdx.x = current;
                if (_setjmp(scheduler)) {
                } else if (begun) {
                    _longjmp(places[current], 1);
                } else {
                    setcontext(&fibres[current]);
                }
                left += !finished[current];
            }
}

static void launch(void (*kernel)(void **), bool meets, unsigned blocks, unsigned rows, unsigned threads, void **args)
{
    entry = kernel;
    passed = args;
    gridDim.x = blocks, gridDim.y = rows, blockDim.x = threads;
    for (blockIdx.y = 0; blockIdx.y < rows; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
            if (meets)
                run_block(threads);
            else
                for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
                    kernel(args);
}
