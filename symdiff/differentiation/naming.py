"""Names and dtypes of derivatives, the same in both regimes.

Assumes dtype codes of `ops`. Guarantees the dtype that DESIGN says: `result_type(output, input)`.
"""

from symdiff.vocabulary.ops import join_dtype_codes


def derivative_dtype(output: str, input_: str) -> str:
    """The dtype code of a derivative: `result_type(output, input)`, Booleans counting as real."""
    return (
        join_dtype_codes(join_dtype_codes(output, input_), "f") if "?" in (output, input_) else join_dtype_codes(output, input_)
    )


def derivative_name(output: str, inputs: list[str], several: bool) -> str:
    """df_dx; the output's name is kept when there are several."""
    return f"d{output if several else 'f'}_d{'_d'.join(inputs)}"
