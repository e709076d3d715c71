"""Walks over a Program: what is used, how often and until when, what a value is computed from, and what nobody needs."""

from collections.abc import Iterator
from dataclasses import replace

from symdiff.ir.node import Node
from symdiff.lowering.program import Input, Output, Program, is_leaf
from symdiff.vocabulary.extents import names_in_extents


def uses_of(program: Program) -> list[int]:
    """How often each value is read, by nodes and outputs."""
    uses = [0] * len(program.nodes)
    for node in program.nodes:
        for operand in node.operands:
            uses[operand] += 1
    for output in program.outputs:
        for cell in output.cells:
            uses[cell] += 1
    return uses


def last_uses(program: Program) -> list[int]:
    """The position of the last node that reads each value; the program's length for outputs and checks, -1 for none."""
    last = [-1] * len(program.nodes)
    for position, node in enumerate(program.nodes):
        for operand in node.operands:
            last[operand] = position
    for value in program.results:
        last[value] = len(program.nodes)
    return last


def program_cone(program: Program, values: tuple[int, ...]) -> set[int]:
    """The positions of what some values are computed from, their own included."""
    found = set(values)
    for position in range(max(values, default=-1), -1, -1):
        if position in found:
            found.update(program.nodes[position].operands)
    return found


def programs_in(program: Program) -> Iterator[Program]:
    """A program and its loops' bodies."""
    yield program
    for node in program.nodes:
        if node.op == "loop":
            yield from programs_in(node.params.body)


def nodes_with_bodies(program: Program) -> list[Node]:
    """The nodes of a program and of its loops' bodies."""
    return [node for own in programs_in(program) for node in own.nodes]


def counting_loops(program: Program) -> dict[str, int]:
    """The positions of the loops that count rounds, by the names of these sizes."""
    return {node.params.counted: p for p, node in enumerate(program.nodes) if node.op == "loop" and node.params.tested}


def sizes_of_node(node: Node) -> set[str]:
    """The names of the sizes that a node speaks of and does not count itself."""
    loop = node.params
    if node.op != "loop":
        return names_in_extents((node.shape, loop))
    leaves = tuple(leaf.shape for leaf in loop.body.inputs)
    found = names_in_extents((loop.limit, loop.rounds, loop.rows, loop.stacks, leaves))
    inside = set().union(*map(sizes_of_node, loop.body.nodes)) if loop.body.nodes else set()
    return (found | (inside - counting_loops(loop.body).keys())) - {loop.counted}


def live_only(program: Program) -> Program:
    """The program without the nodes that no output needs; positions are renumbered, order is kept."""
    nodes = program.nodes
    live = bytearray(len(nodes))
    counting = counting_loops(program)
    for value in program.results:
        live[value] = 1
    for position in range(len(nodes) - 1, -1, -1):
        if live[position]:
            for operand in nodes[position].operands:
                live[operand] = 1
            if counting:
                for name in counting.keys() & sizes_of_node(nodes[position]):
                    live[counting[name]] = 1
    first = live.find(0)
    if first < 0:
        return program
    place = [*range(first), *[-1] * (len(nodes) - first)]
    kept = nodes[:first]
    for position in range(first, len(nodes)):
        if live[position]:
            place[position] = len(kept)
            node = nodes[position]
            kept.append(node.on(tuple([place[o] for o in node.operands])) if node.operands else node)
    return program.over(kept, place)


def program_in_two(program: Program) -> tuple[Program, Program]:
    """What the checks are computed from, and the rest. Numbers that the rest needs of it are outputs of the first program, and
    inputs of the second after its own.
    """
    cone = program_cone(program, program.checks)
    needed = {o for p, i in enumerate(program.nodes) if p not in cone for o in i.operands} | {
        c for o in program.outputs for c in o.cells
    }
    carried = [p for p in sorted(cone & needed) if not is_leaf(n := program.nodes[p]) and not n.shape and n.op != "loop"]
    kinds = [program.nodes[p].dtype for p in carried]
    outputs = tuple(Output(f"v{k}", (), code, (p,)) for k, (p, code) in enumerate(zip(carried, kinds, strict=True)))
    first = live_only(replace(program, outputs=outputs))
    inputs = (*program.inputs, *(Input(o.name, (), o.dtype) for o in outputs))
    nodes = list(program.nodes)
    for k, (position, code) in enumerate(zip(carried, kinds, strict=True)):
        nodes[position] = Node("input", (), (), code, (len(program.inputs) + k, 0))
    return first, live_only(replace(program, inputs=inputs, nodes=nodes, checks=()))
