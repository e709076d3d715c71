"""Functions of real numbers that CUDA lacks, as device functions.

Assumes a type of float or double for {t}, and the suffix {f} of CUDA's functions of that type. Guarantees SciPy's values to
some units in the last place, but for cancellation near zeros. Methods: K0 and K1 by their power
series up to 1 and by the trapezoidal rule over exp(-x cosh t) from there (Trefethen and Weideman, The exponentially convergent
trapezoidal rule, 2014); the scaled I0 and I1 beyond 30 by Hankel's expansion; E1 by its series and its continued fraction; zeta
and polygamma by Euler and Maclaurin's formula.
"""

REAL = {
    "mantissa": "{t} np_mantissa({t} x)\n{{\n    int exponent;\n    return frexp{f}(x, &exponent);\n}}",
    "exponent": "{t} np_exponent({t} x)\n{{\n    int exponent;\n    frexp{f}(x, &exponent);\n    return exponent;\n}}",
    "digamma": """{t} digamma({t} x)
{{
    if (x <= 0 && floor{f}(x) == x)
        return x == 0 ? copysign{f}(INFINITY, -x) : NAN;
    {t} y = 0;
    if (x < 0) {{
        y = -3.141592653589793{f} * cospi{f}(x) / sinpi{f}(x);
        x = 1 - x;
    }}
    for (; x < 8; x += 1)
        y -= 1 / x;
    const {t} r = 1 / (x * x);
    return y + log{f}(x) - 0.5{f} / x
        - r * ((1.0{f} / 12) - r * ((1.0{f} / 120) - r * ((1.0{f} / 252) - r * ((1.0{f} / 240)
        - r * ((1.0{f} / 132) - r * ((691.0{f} / 32760) - r * (1.0{f} / 12)))))));
}}""",
    "zeta": """{t} special_zeta({t} s, {t} q)
{{
    if (!(s > 1) || (q <= 0 && floor{f}(q) == q))
        return s >= 1 ? INFINITY : NAN;
    if (q < 0 && floor{f}(s) != s)
        return NAN;
    {t} sum = 0;
    for (; q < 10 + s; q += 1) {{
        const {t} term = pow{f}(q, -s);
        sum += term;
        if (q > 1 && q * term < 1e-18{f} * sum)
            return sum;
    }}
    // From here on the integral, half a term, and the numbers of Bernoulli.
    const {t} power = pow{f}(q, -s), r = 1 / (q * q);
    sum += power * (q / (s - 1) + 0.5{f});
    const {t} factor[7] = {{(1.0{f} / 12), (-1.0{f} / 720), (1.0{f} / 30240), (-1.0{f} / 1209600),
        (1.0{f} / 47900160), (-691.0{f} / 1307674368000), (1.0{f} / 74724249600)}};
    {t} term = power * s / q;
    for (int j = 0; j < 7; ++j) {{
        sum += factor[j] * term;
        term *= (s + (2 * j + 1)) * (s + (2 * j + 2)) * r;
    }}
    return sum;
}}""",
    "polygamma": """{t} special_polygamma({t} n, {t} x)
{{
    if (n == 0)
        return digamma(x);
    const {t} value = tgamma{f}(n + 1) * special_zeta(n + 1, x);
    return fmod{f}(n, 2.0{f}) == 0 ? -value : value;
}}""",
    "exp1": """{t} special_exp1({t} x)
{{
    if (!(x > 0))
        return x == 0 ? INFINITY : NAN;
    if (x <= 2) {{
        {t} term = -1, sum = -0.5772156649015329{f} - log{f}(x);
        for (int k = 1; k < 28; ++k) {{
            term *= -x / k;
            sum += term / k;
        }}
        return sum;
    }}
    {t} b = x + 1, c = 1e30{f}, d = 1 / b, product = d;
    for (int k = 1; k < 60; ++k) {{
        const {t} a = -({t})k * k;
        b += 2;
        d = 1 / (a * d + b);
        c = b + a / c;
        product *= c * d;
    }}
    return product * exp{f}(-x);
}}""",
    "i0e": """{t} special_i0e({t} x)
{{
    x = fabs{f}(x);
    if (x < 50)
        return exp{f}(-x) * cyl_bessel_i0{f}(x);
    {t} term = 1, sum = 1;
    for (int k = 1; k < 14; ++k) {{
        term *= (2 * k - 1) * (2 * k - 1) / (8 * k * x);
        sum += term;
    }}
    return sum / sqrt{f}(6.283185307179586{f} * x);
}}""",
    "i1e": """{t} special_i1e({t} x)
{{
    const {t} y = fabs{f}(x);
    if (y < 50)
        return exp{f}(-y) * cyl_bessel_i1{f}(x);
    {t} term = 1, sum = 1;
    for (int k = 1; k < 14; ++k) {{
        term *= ((2 * k - 1) * (2 * k - 1) - 4) / (8 * k * y);
        sum += term;
    }}
    return copysign{f}(sum / sqrt{f}(6.283185307179586{f} * y), x);
}}""",
    "k0e": """{t} special_k0e({t} x)
{{
    if (!(x > 0) || isinf(x))
        return x == 0 ? INFINITY : x > 0 ? 0 : NAN;
    if (x <= 1) {{
        {t} term = 1, factor = -0.5772156649015329{f} - log{f}(x / 2), sum = factor;
        for (int k = 1; k < 12; ++k) {{
            term *= x * x / (4 * k * k);
            factor += 1.0{f} / k;
            sum += term * factor;
        }}
        return exp{f}(x) * sum;
    }}
    // The integral of exp(-x*(cosh(t) - 1)) over positive t.
    const {t} h = acosh{f}(1 + 40 / x) / 24;
    {t} sum = 0.5{f};
    for (int k = 1; k < 24; ++k) {{
        const {t} s = sinh{f}(k * h / 2);
        sum += exp{f}(-2 * x * s * s);
    }}
    return h * sum;
}}""",
    "k1e": """{t} special_k1e({t} x)
{{
    if (!(x > 0) || isinf(x))
        return x == 0 ? INFINITY : x > 0 ? 0 : NAN;
    if (x <= 1) {{
        {t} term = 1, factor = 0.5772156649015329{f} + log{f}(x / 2) - 0.5{f}, sum = factor;
        for (int k = 1; k < 12; ++k) {{
            term *= x * x / (4 * k * (k + 1));
            factor -= 0.5{f} / k + 0.5{f} / (k + 1);
            sum += term * factor;
        }}
        return exp{f}(x) * (1 / x + x / 2 * sum);
    }}
    // The integral of exp(-x*(cosh(t) - 1))*cosh(t) over positive t.
    const {t} h = acosh{f}(1 + 40 / x) / 24;
    {t} sum = 0.5{f};
    for (int k = 1; k < 24; ++k) {{
        const {t} s = sinh{f}(k * h / 2);
        sum += exp{f}(-2 * x * s * s) * (1 + 2 * s * s);
    }}
    return h * sum;
}}""",
}  # fmt: skip
# What functions call, and the macros of <math.h> that they have.
NEEDS = {
    "polygamma": ["digamma", "zeta"], "digamma": ["INFINITY", "NAN"], "zeta": ["INFINITY", "NAN"], "exp1": ["INFINITY", "NAN"],
    "k0e": ["INFINITY", "NAN"], "k1e": ["INFINITY", "NAN"],
}  # fmt: skip
NAMES = {name: name if name == "digamma" else f"special_{name}" for name in REAL}  # in CUDA
NAMES |= {"mantissa": "np_mantissa", "exponent": "np_exponent"}
