# The rest of the three syntaxes, written for tests/test_julia.py from the functions' definitions.
module Constructs
using SpecialFunctions

abstract type Nothing end
struct Pair; first; second; end
const WORDS = (:for, :end, :if)
helper(x) = x > 0 ? x[end] : [f for f in WORDS]
@inline function square(x)
    for i in 1:2 x += i end
    return if x > 0; x else -x end
end
"a string with @define_diffrule Base.quoted(x) = :(1)"
kind = :end

if VERSION < v"1"
    @define_diffrule Base.sin(θ) = :(cos($θ))
end
@define_diffrule Base.:(^)(x, y) = :(y * x^(y - 1)), :(x^y * log(x))
@define_diffrule Base.Math.sinh(lambda) = quote
    cosh(lambda)   # a keyword of Python
end
@define_diffrule Base.tan(out) = :(1 + tan(out)^2)
@define_diffrule Base.expm1(e) = :(ℯ^e)
@define_diffrule Base.:-(ϵ, ε) = :(one(ϵ)), :(-one(ε))
@define_diffrule Base.max(x, y) =

    # a comment between
    :($x > $y),
    :(x > y ? false : true)
@define_diffrule Base.abs2(x) = :(if x < 0
    s = -1
    t = -x
elseif x == 0
    s = 0; t = x
else
    s = 1; t = x
end; 2 * s * t)
@define_diffrule $(SpecialFunctions.erf)(x) = :($(Base.exp)(-$x * $(x)) * 2 / $sqrtπ)
@define_diffrule SpecialFunctions.besselk(ν, x) = :NaN, NaN

let
    fastable = quote
        @scalar_rule exp(x) Ω
        @scalar_rule sqrt(x::Union{Real, Complex{T}}) inv(2Ω)
        @scalar_rule x \ y (-(x \ Ω), one(y) / x)
        @scalar_rule +x true
        @scalar_rule cos(Ω) -sin(Ω)
        @scalar_rule(
            hypot(x::Real, y::Real),
            @setup(h = Ω, c = x -y),
            (x / h, (c -x) / -h),
        )
        @scalar_rule sign(x) ZeroTangent()
        @scalar_rule ldexp(x, y) (2^y, NoTangent())
        @scalar_rule atan(y, x) @setup(u = x^2 + y^2) (x / u, -y / u)
    end
end

@diffrule *(x::Real, y::Real) x y * ds
@diffrule log(x::Real) x ds / x
@diffrule *(x::Real, y::Real) y ds * x
@diffrule tanh(x::Real) x (1 - y^2) * ds
@diffrule min(x::Real, y::Real) y (x > y) * ds
@diffrule identity(x::Complex) x dy

# what cannot be read
for f in (:sin, :cos)
    @eval @define_diffrule Base.$f(x) = :(1)
end
let g = sin
    @scalar_rule g(x) cos(x)
end
function define(f)
    @scalar_rule f(x) 1
end
@diffrule sum(x::AbstractArray) x ds
@diffrule sin(x::Real) x sin(ds)
@scalar_rule (x) 1
end
