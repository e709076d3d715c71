"""Products of matrices as LLVM IR: one function for each dtype, over blocks that stay in the nearest memory.

Assumes pointers to first cells and strides in cells; rows of the result in one line, which no operand overlaps. Guarantees sums
that are added to the cells that are there, in blocks of `DEEP` terms, each product with one rounding.

Source: Goto, van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34 (2008): columns of the second operand
side by side in vectors, as many rows of the first one as there are registers for their sums.
"""

from symdiff.codegen.math.lines import TYPES, Lines
from symdiff.vocabulary.ops import bytes_of_code

DEEP = 128  # terms of sums for which columns are laid side by side: 24 KB
WIDE = 3  # vectors of columns


def llvm_product(code: str, lanes: int) -> tuple[str, dict[str, str]]:
    """A function `@product.<code>(c, a, b, rows, columns, terms, strides of a, of b, of the rows of c)`, and what it declares.

    `lanes`: the float64 numbers of a vector.
    """
    kind, size = TYPES[code], bytes_of_code(code)
    lanes = lanes * 8 // size
    high, side = (8 if lanes * size == 64 else 4), WIDE * lanes
    vector, fma = f"<{lanes} x {kind}>", f"@llvm.fma.v{lanes}{'f64' if code == 'd' else 'f32'}"
    cells = [(r, v) for r in range(high) for v in range(WIDE)]
    lines = Lines(lanes)
    put, run = lines.put, lines.run

    def least(whole: str, most: int | str) -> str:
        return put(f"call i64 @llvm.smin.i64(i64 {whole}, i64 {most})")

    def place(base: str, *terms: tuple[str | int, str | int]) -> str:
        """The address of a cell, by its indices and the strides."""
        for index, stride in terms:
            base = put(f"getelementptr inbounds {kind}, ptr {base}, i64 {put(f'mul nsw i64 {index}, {stride}')}")
        return base

    def moved(start: str, target: str, add: bool = False) -> None:
        """A cell that is stored elsewhere, or added there."""
        found = put(f"load {kind}, ptr {start}")
        if add:
            found = put(f"fadd {kind} {put(f'load {kind}, ptr {target}')}, {found}")
        run(f"store {kind} {found}, ptr {target}")

    run(f"%pack = alloca [{DEEP * side} x {kind}], align 64", f"%tile = alloca [{high * side} x {kind}], align 64")
    with lines.loop("%n", side) as j:
        wide = least(put(f"sub nsw i64 %n, {j}"), side)
        whole = put(f"icmp eq i64 {wide}, {side}")
        with lines.loop("%k", DEEP) as p:
            deep = least(put(f"sub nsw i64 %k, {p}"), DEEP)
            with lines.loop(deep) as q:  # columns side by side
                row, packed = place("%b", (p, "%db"), (j, "%rb"), (q, "%db")), place("%pack", (q, side))
                with lines.loop(wide) as w:
                    moved(place(row, (w, "%rb")), place(packed, (w, 1)))
                with lines.loop(str(side), start=wide) as w:
                    run(f"store {kind} 0.0, ptr {place(packed, (w, 1))}")
            with lines.loop("%m", high) as i:
                rows, last = put(f"sub nsw i64 %m, {i}"), put("sub nsw i64 %m, 1")
                first = [place("%a", (least(put(f"add nsw i64 {i}, {r}"), last), "%da"), (p, "%ra")) for r in range(high)]
                sums = [(vector, f"%sum{r}.{v}", "zeroinitializer", f"%new{r}.{v}") for r, v in cells]
                with lines.loop(deep, carried=sums) as s:
                    columns = place("%pack", (s, side))
                    b = [put(f"load {vector}, ptr {place(columns, (v * lanes, 1))}, align {lanes * size}") for v in range(WIDE)]
                    for r in range(high):
                        a = lines.repeated(kind, put(f"load {kind}, ptr {place(first[r], (s, '%ra'))}"), lanes)
                        for v in range(WIDE):
                            run(f"%new{r}.{v} = call {vector} {fma}({vector} {a}, {vector} {b[v]}, {vector} %sum{r}.{v})")
                rows = least(rows, high)
                full = put(f"and i1 {put(f'icmp eq i64 {rows}, {high}')}, {whole}")
                corner = place("%c", (i, "%dc"), (j, 1))
                run(f"br i1 {full}, label %full, label %part", "full:")
                for r, v in cells:
                    at = place(corner, (r, "%dc"), (v * lanes, 1))
                    old = put(f"load {vector}, ptr {at}, align {size}")
                    run(f"store {vector} {put(f'fadd {vector} {old}, %sum{r}.{v}')}, ptr {at}, align {size}")
                run("br label %done", "part:")
                for r, v in cells:
                    run(f"store {vector} %sum{r}.{v}, ptr {place('%tile', (r * side + v * lanes, 1))}, align {lanes * size}")
                with lines.loop(rows) as f, lines.loop(wide) as g:
                    moved(place("%tile", (f, side), (g, 1)), place(corner, (f, "%dc"), (g, 1)), True)
                run("br label %done", "done:")
    head = (
        f"define private void @product.{code}(ptr noalias %c, ptr noalias %a, ptr noalias %b, i64 %m, i64 %n, i64 %k, "
        "i64 %da, i64 %ra, i64 %db, i64 %rb, i64 %dc) noinline nounwind {"
    )
    declared = {
        "llvm.smin.i64": "declare i64 @llvm.smin.i64(i64, i64)",
        fma[1:]: f"declare {vector} {fma}({vector}, {vector}, {vector})",
    }
    return "\n".join([head, *lines.text, "  ret void", "}"]), declared
