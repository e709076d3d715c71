"""A hundred functions as found in scientific code, by field, each with example arguments in its module's `EXAMPLES`."""
