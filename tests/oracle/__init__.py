"""An earlier state of symdiff, installed as a wheel, compared with the tree; `python -m tests.oracle --help`."""
