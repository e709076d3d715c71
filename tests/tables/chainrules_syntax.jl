# ChainRules and Yota syntax, written for these tests.
@scalar_rule sin(x) cos(x)
@scalar_rule exp(x::Real) Ω
@scalar_rule(tan(x), 1 + Ω^2)
@scalar_rule atan(y, x) @setup(u = x^2 + y^2) (x / u, -y / u)
@scalar_rule asin(x) @setup u = 1 - x^2 inv(sqrt(u))
@scalar_rule x / y (one(x) / y, -(Ω / y))
@scalar_rule x * y (y, x)
@scalar_rule -x -1
@scalar_rule ldexp(x, y) (2.0^y, NoTangent())
@scalar_rule max(x, y) @setup(gt = x > y) (gt, !gt)
@diffrule cos(x::Real) x -sin(x) * ds
@diffrule hypot(x::Real, y::Real) x ds * x / hypot(x, y)
@diffrule hypot(x::Real, y::Real) y ds * y / hypot(x, y)
@diffrule log1p(x::Real) x ds / (1 + x)
@diffrule tanh(x::Real) x (1 - y^2) * ds
@diffrule sinh(x::Real) x cosh(x * ds)
@diffrule sum(x::AbstractArray) x ds
