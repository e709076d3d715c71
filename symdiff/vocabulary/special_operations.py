"""The special functions among the operations: SciPy's kernels, one row each.

Assumes SciPy only where such an operation is computed. Guarantees rows like those of `ops`; `item` picks one of several
results (`airy` gives Ai, Ai', Bi and Bi').
"""

from symdiff.vocabulary.operation import Op

# name or name:scipy's; a trailing * tells that complex arguments are computed, too.
_ONE = """
erf* erfc* erfi* erfcx* dawsn* erfinv erfcinv gamma* rgamma* gammaln loggamma* digamma:psi* j0 j1 y0 y1 i0 i0e i1 i1e
k0 k0e k1 k1e exp1* expi* spence* ellipk ellipkm1 ellipe ndtr* log_ndtr* ndtri ndtri_exp expit log_expit logit cosm1 exprel
exp10 sindg cosdg tandg cotdg wrightomega* ber bei berp beip ker kei kerp keip itstruve0 itmodstruve0 it2struve0 zetac
"""
_TWO = """
jv* yv* iv* kv* jve* yve* ive* kve* beta betaln zeta expn polygamma gammainc gammaincc gammaincinv gammainccinv struve modstruve
ellipkinc ellipeinc hyp0f1* xlogy* xlog1py* owens_t binom poch stdtr stdtrit agm elliprc* powm1
eval_chebyt* eval_chebyu* eval_legendre* eval_hermite eval_hermitenorm eval_laguerre* tklmbda
"""
_THREE = """
betainc betaincc betaincinv betainccinv hyp1f1* hyperu elliprd* elliprf* elliprg* eval_gegenbauer* eval_genlaguerre*
chndtr lpmv wright_bessel log_wright_bessel
"""
_FOUR = "hyp2f1* elliprj* eval_jacobi*"
_SEVERAL = """
airyai:airy* airyaip:airy* airybi:airy* airybip:airy*  airyaie:airye* airyaipe:airye* airybie:airye* airybipe:airye*
sinint:sici* cosint:sici*  sinhint:shichi* coshint:shichi*  fresnels:fresnel* fresnelc:fresnel*
ellipsn:ellipj ellipcn:ellipj ellipdn:ellipj ellipph:ellipj
itairyai:itairy itairybi:itairy itairyain:itairy itairybin:itairy
itj0:itj0y0 ity0:itj0y0 iti0:iti0k0 itk0:iti0k0 it2j0:it2j0y0 it2y0:it2j0y0 it2i0:it2i0k0 it2k0:it2i0k0
parabolicd:pbdv parabolicdp:pbdv parabolicv:pbvv parabolicvp:pbvv parabolicw:pbwa parabolicwp:pbwa
modfresnelpf:modfresnelp modfresnelpk:modfresnelp modfresnelmf:modfresnelm modfresnelmk:modfresnelm
"""
_PAIRED = frozenset({"ellipj", "pbdv", "pbvv", "pbwa"})
_COUNTING = "eval_hermite eval_hermitenorm"
_TO_COMPLEX = "wofz hankel1 hankel1e hankel2 hankel2e modfresnelpf modfresnelpk modfresnelmf modfresnelmk"
_PYTHON = {
    "erf": "math.erf({0})", "erfc": "math.erfc({0})", "gamma": "math.gamma({0})", "gammaln": "math.lgamma({0})",
}  # fmt: skip
_C = {"erf": "erf", "erfc": "erfc", "gamma": "tgamma", "gammaln": "lgamma", "j0": "j0", "j1": "j1", "y0": "y0", "y1": "y1"}
_CUDA = _C | {
    "erfinv": "erfinv", "erfcinv": "erfcinv", "erfcx": "erfcx", "ndtr": "normcdf", "ndtri": "normcdfinv",
    "i0": "cyl_bessel_i0", "i1": "cyl_bessel_i1", "exp10": "exp10",
}  # fmt: skip
_TRAITS = {"erf": "libm", "erfc": "libm", "exp10": "exponential", "gamma": "folded"}


def _row(word: str, arity: int, item: int | None = None) -> Op:
    on_complex = word.endswith("*")
    name, _, scipy = word.rstrip("*").partition(":")
    return Op(
        name,
        arity,
        f"special.{scipy or name}",
        _PYTHON.get(name),
        result="complex" if name in _TO_COMPLEX.split() else "same",
        item=item,
        real_only=not on_complex,
        counts=name in _COUNTING.split(),
        c=_C.get(name),
        cuda=_CUDA.get(name),
        traits=_TRAITS.get(name, ""),
    )


def _several() -> list[Op]:
    seen: dict[str, int] = {}
    rows = []
    for word in _SEVERAL.split():
        scipy = word.rstrip("*").partition(":")[2]
        item = seen[scipy] = seen.get(scipy, -1) + 1
        rows.append(_row(word, 2 if scipy in _PAIRED else 1, item))
    return rows


ROWS = [
    *(_row(word, 1) for word in _ONE.split()),
    *(_row(word, 2) for word in _TWO.split()),
    *(_row(word, 3) for word in _THREE.split()),
    *(_row(word, 4) for word in _FOUR.split()),
    _row("wofz*", 1),
    *(_row(f"{name}*", 2) for name in ("hankel1", "hankel1e", "hankel2", "hankel2e")),
    *_several(),
]
