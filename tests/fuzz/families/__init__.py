"""One module for each kind of program. Its `trial(random)` writes one program, runs it, and returns a `Verdict` of the harness;
whatever it raises is a bug found."""
