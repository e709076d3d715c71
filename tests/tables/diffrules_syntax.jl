# A table in the syntax of DiffRules.jl, written for these tests: one row for every construct that the reader knows.
using SpecialFunctions: SpecialFunctions
const DEFINED = Dict{Tuple{Symbol,Symbol,Int},Any}()

"""
    _abs_deriv(x)

@define_diffrule is only mentioned in this docstring: Base.nothing(x) = :(x)
"""
_abs_deriv(x) = signbit(x) ? -one(x) : one(x)

#= a block comment #= that nests =#
@define_diffrule Base.commented(x) = :(1)
=#
# @define_diffrule Base.commented_too(x) = :(1)

# operators and numbers
@define_diffrule Base.:+(x) = :( 1 )
@define_diffrule Base.:-(x) = :(-1)
@define_diffrule Base.:+(x, y) = :(1), :(1)
@define_diffrule Base.:-(x, y) = 1, -1
@define_diffrule Base.:*(x, y) = :y, :x
@define_diffrule Base.:/(x, y) = :(one($x) / $y), :(-($x / $y / $y))
@define_diffrule Base.:\(x, y) = :(-y / x / x), :(one(y) / x)
@define_diffrule Base.:^(x, y) = :(y * ($x^($y - 1))), :(ifelse(x == 0, zero(x), (x^y) * log(x)))
# right-hand sides on the next line, Greek names, interpolated constants
@define_diffrule Base.exp2(ξ) =
    :(exp2($ξ) * $logtwo)
@define_diffrule Base.log10(x) = :(inv(x) / $logten)
@define_diffrule Base.log2(x) = :(1 / (x * $logtwo))
@define_diffrule Base.sqrt(ϵ) = :(inv(2 * sqrt($ϵ)))
@define_diffrule Base.log(b, x) =
    :( -log(b, x) / (b * log(b)) ),
    :( inv(x * log(b)) )
@define_diffrule Base.abs(x) = :( $(_abs_deriv)($x) )
@define_diffrule Base.sinpi(x) = :(π * cospi(x))
@define_diffrule Base.sind(x) = :((π / 180) * cosd(x))
@define_diffrule Base.cbrt(x) = :(1 / 3cbrt(x)^2)
# conditions and blocks
@define_diffrule Base.max(x, y) = :( x > y ), :(!(x > y))
@define_diffrule Base.min(x, y) = :($x < $y ? one($x) : zero($x)), :(x < y ? 0 : 1)
@define_diffrule Base.atan(y, x) = :(z = x^2 + y^2; x / z), :(
    z = x^2 + y^2;
    -y / z
)
@define_diffrule Base.hypot(x, y) = quote
    h = hypot(x, y)
    x / h
end, :(if y == 0; zero(y) else y / hypot(x, y) end)
@define_diffrule Base.mod(x, y) = :(1), :(if isnan(x) && !(y > 0) || y == 0
    NaN
elseif (x > 0) | (x < 0) & true
    -floor(x / y)
else
    0
end)
@define_diffrule Base.cosh(x) = :(isa(x, Real) ? sinh(x) : -im * sin(im * x))
@define_diffrule Base.tanh(x) = :(oftype(x, 1) - float(tanh(x))^2)
# dotted callees, interpolated heads, missing partials
@define_diffrule SpecialFunctions.erf(x) = :((2 / $sqrtπ) * exp(-x * x))
@define_diffrule SpecialFunctions.erfc(x) = :(-2 * $invsqrtπ * Base.exp(-x^2))
@define_diffrule $(SpecialFunctions.digamma)(x) = :(SpecialFunctions.trigamma(x))
@define_diffrule SpecialFunctions.besselj(ν, x) = :NaN, :((SpecialFunctions.besselj(ν - 1, x) - SpecialFunctions.besselj(ν + 1, x)) / 2)
@define_diffrule SpecialFunctions.hankelh1x(ν, x) =
    :NaN, :((hankelh1x(ν - 1, x) - hankelh1x(ν + 1, x)) / 2 - im * hankelh1x(ν, x))
@define_diffrule LogExpFunctions.xlogy(x, y) = :(log(y)), :(x / y)
@define_diffrule NaNMath.max(x, y) = :(ifelse((y > x) | (signbit(y) < signbit(x)), ifelse(isnan(y), one(x), zero(x)), 1)), :(ifelse(y > x, 1, 0))
@define_diffrule Somewhere.unheard_of(x) = :(2x)

# what cannot be read: each is reported, and the others are loaded
@define_diffrule Base.bad_attribute(x) = :(x.field)
@define_diffrule Base.bad_name(x) = :(x + unknown)
@define_diffrule Base.bad_call(x) = :(run_a_program(x))
@define_diffrule Base.bad_count(x, y) = :(x)
@define_diffrule Base.bad_parenthesis(x) = :((x)
for f in (:sin, :cos)
    @define_diffrule Base.$f(x) = :(1)
end
@define_diffrule Base.sin(x) = :(cos(x))
