"""Program to Program with the fewest operations (stand-in)."""
def share(program, fastmath=False):
    import dataclasses
    from symdiff.codegen.program import Program
    return program
