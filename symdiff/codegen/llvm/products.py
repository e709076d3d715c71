"""Products of matrices as LLVM IR: one function for each dtype, over blocks that stay in the nearest memory.

Assumes pointers to first cells and strides in cells; rows of the result in one line, which no operand overlaps. Guarantees sums
that are added to the cells that are there, in blocks of `DEEP` terms, each product with one rounding.

Source: Goto, van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34 (2008): columns of the second operand
side by side in vectors, as many rows of the first one as there are registers for their sums.
"""

from symdiff.codegen.math.lines import TYPES
from symdiff.vocabulary.ops import bytes_of_code

DEEP = 128  # terms of sums for which columns are laid side by side: 24 KB
WIDE = 3  # vectors of columns


def llvm_product(code: str, lanes: int) -> tuple[str, dict[str, str]]:
    """A function `@product.<code>(c, a, b, rows, columns, terms, strides of a, of b, of the rows of c)`, and what it declares.

    `lanes`: the float64 numbers of a vector.
    """
    kind = TYPES[code]
    lanes = lanes * 8 // bytes_of_code(code)
    high, side = (8 if lanes * bytes_of_code(code) == 64 else 4), WIDE * lanes
    vector, size = f"<{lanes} x {kind}>", bytes_of_code(code)
    fma = f"@llvm.fma.v{lanes}{'f64' if code == 'd' else 'f32'}"
    cells = [(r, v) for r in range(high) for v in range(WIDE)]
    text = [
        f"define private void @product.{code}(ptr noalias %c, ptr noalias %a, ptr noalias %b, i64 %m, i64 %n, i64 %k, "
        "i64 %da, i64 %ra, i64 %db, i64 %rb, i64 %dc) noinline nounwind {",
        f"  %pack = alloca [{DEEP * side} x {kind}], align 64",
        f"  %tile = alloca [{high * side} x {kind}], align 64",
        "  br label %start",
    ]

    def loop(name: str, before: str, stop: str, step: int | str) -> None:
        """The head of a loop, whose number is `%name`; it ends with `end(name)`."""
        text.extend([
            f"{name}.head:", f"  %{name} = phi i64 [0, %{before}], [%{name}.next, %{name}.latch]",
            f"  %{name}.more = icmp slt i64 %{name}, {stop}", f"  br i1 %{name}.more, label %{name}.body, label %{name}.exit",
            f"{name}.latch:", f"  %{name}.next = add nsw i64 %{name}, {step}", f"  br label %{name}.head", f"{name}.body:",
        ])  # fmt: skip

    def put(name: str, instruction: str) -> str:
        text.append(f"  %{name} = {instruction}")
        return f"%{name}"

    def least(name: str, whole: str, most: int | str) -> str:
        less = put(f"{name}.less", f"icmp slt i64 {whole}, {most}")
        return put(name, f"select i1 {less}, i64 {whole}, i64 {most}")

    def place(name: str, base: str, *terms: tuple[str, str]) -> str:
        """The address of a cell, by its indices and the strides."""
        for n, (index, stride) in enumerate(terms):
            offset = put(f"{name}.o{n}", f"mul nsw i64 {index}, {stride}")
            base = put(f"{name}.p{n}", f"getelementptr inbounds {kind}, ptr {base}, i64 {offset}")
        return base

    text.append("start:\n  br label %j.head")
    loop("j", "start", "%n", side)
    least("nn", put("j.rest", "sub nsw i64 %n, %j"), side)
    put("is.wide", f"icmp eq i64 %nn, {side}")
    text.append("  br label %p.head")
    loop("p", "j.body", "%k", DEEP)
    least("kk", put("p.rest", "sub nsw i64 %k, %p"), DEEP)
    place("b0", "%b", ("%p", "%db"), ("%j", "%rb"))
    text.append("  br label %q.head")
    loop("q", "p.body", "%kk", 1)  # columns side by side
    place("bq", "%b0.p1", ("%q", "%db"))
    place("to", "%pack", ("%q", str(side)))
    text.append("  br label %w.head")
    loop("w", "q.body", str(side), 1)
    put("w.in", "icmp slt i64 %w, %nn")
    text.append("  br i1 %w.in, label %w.load, label %w.store\nw.load:")
    place("bw", "%bq.p0", ("%w", "%rb"))
    put("w.cell", f"load {kind}, ptr %bw.p0")
    text.append("  br label %w.store\nw.store:")
    put("w.value", f"phi {kind} [0.0, %w.body], [%w.cell, %w.load]")
    put("w.to", f"getelementptr inbounds {kind}, ptr %to.p0, i64 %w")
    text.extend([f"  store {kind} %w.value, ptr %w.to", "  br label %w.latch", "w.exit:", "  br label %q.latch", "q.exit:"])
    text.append("  br label %i.head")
    loop("i", "q.exit", "%m", high)
    put("i.rest", "sub nsw i64 %m, %i")
    put("last", "sub nsw i64 %m, 1")
    for r in range(high):
        least(f"row{r}", put(f"i{r}", f"add nsw i64 %i, {r}"), "%last")
        place(f"a{r}", "%a", (f"%row{r}", "%da"), ("%p", "%ra"))
    text.extend(["  br label %s.head", "s.head:", "  %s = phi i64 [0, %i.body], [%s.next, %s.body]"])
    for r, v in cells:
        put(f"sum{r}.{v}", f"phi {vector} [zeroinitializer, %i.body], [%new{r}.{v}, %s.body]")
    text.extend(["  %s.more = icmp slt i64 %s, %kk", "  br i1 %s.more, label %s.body, label %s.exit", "s.body:"])
    place("bs", "%pack", ("%s", str(side)))
    for v in range(WIDE):
        put(f"b{v}.at", f"getelementptr inbounds {kind}, ptr %bs.p0, i64 {v * lanes}")
        put(f"b.{v}", f"load {vector}, ptr %b{v}.at, align {lanes * size}")
    for r in range(high):
        place(f"as{r}", f"%a{r}.p1", ("%s", "%ra"))
        put(f"x{r}", f"load {kind}, ptr %as{r}.p0")
        put(f"y{r}", f"insertelement {vector} poison, {kind} %x{r}, i32 0")
        put(f"z{r}", f"shufflevector {vector} %y{r}, {vector} poison, <{lanes} x i32> zeroinitializer")
        for v in range(WIDE):
            put(f"new{r}.{v}", f"call {vector} {fma}({vector} %z{r}, {vector} %b.{v}, {vector} %sum{r}.{v})")
    text.extend(["  %s.next = add nsw i64 %s, 1", "  br label %s.head", "s.exit:"])
    least("high", "%i.rest", high)
    put("is.high", f"icmp eq i64 %high, {high}")
    put("is.full", "and i1 %is.high, %is.wide")
    place("ci", "%c", ("%i", "%dc"), ("%j", "1"))
    text.extend(["  br i1 %is.full, label %full, label %part", "full:"])
    for r, v in cells:
        place(f"c{r}.{v}", "%ci.p1", (str(r), "%dc"), (str(v * lanes), "1"))
        put(f"old{r}.{v}", f"load {vector}, ptr %c{r}.{v}.p1, align {size}")
        put(f"all{r}.{v}", f"fadd {vector} %old{r}.{v}, %sum{r}.{v}")
        text.append(f"  store {vector} %all{r}.{v}, ptr %c{r}.{v}.p1, align {size}")
    text.extend(["  br label %i.latch", "part:"])
    for r, v in cells:
        put(f"t{r}.{v}", f"getelementptr inbounds {kind}, ptr %tile, i64 {r * side + v * lanes}")
        text.append(f"  store {vector} %sum{r}.{v}, ptr %t{r}.{v}, align {lanes * size}")
    text.append("  br label %f.head")
    loop("f", "part", "%high", 1)
    place("cf", "%ci.p1", ("%f", "%dc"))
    place("tf", "%tile", ("%f", str(side)))
    text.append("  br label %g.head")
    loop("g", "f.body", "%nn", 1)
    put("cg", f"getelementptr inbounds {kind}, ptr %cf.p0, i64 %g")
    put("tg", f"getelementptr inbounds {kind}, ptr %tf.p0, i64 %g")
    put("g.old", f"load {kind}, ptr %cg")
    put("g.sum", f"load {kind}, ptr %tg")
    put("g.all", f"fadd {kind} %g.old, %g.sum")
    text.append(f"  store {kind} %g.all, ptr %cg")
    for name, after in (("g", "f.latch"), ("f", "i.latch"), ("i", "p.latch"), ("p", "j.latch")):
        text.extend([f"  br label %{name}.latch"] if name == "g" else [])
        text.extend([f"{name}.exit:", f"  br label %{after}"])
    declared = {fma[1:]: f"declare {vector} {fma}({vector}, {vector}, {vector})"}
    return "\n".join([*text, "j.exit:", "  ret void", "}"]), declared
