"""Random programs over the whole traced surface, compared with the plain function; `python -m tests.fuzz --help`."""
