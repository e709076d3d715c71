"""The version, read by the package, by the headers of generated files and by the build."""

__version__ = "0.1.0"
