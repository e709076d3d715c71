"""Names and dtypes of derivatives, the same in both regimes.

Assumes dtype codes of `ops`. Guarantees the dtype that DESIGN says: `result_type(output, input)`.
"""

from symdiff.vocabulary.ops import join


def derivative_dtype(output: str, input_: str) -> str:
    """The dtype code of a derivative: `result_type(output, input)`, Booleans counting as real."""
    return join(join(output, input_), "f") if "?" in (output, input_) else join(output, input_)


def output_name(output: str, inputs: list[str], several: bool) -> str:
    """df_dx; the output's name is kept when there are several."""
    return f"d{output if several else 'f'}_d{'_d'.join(inputs)}"
