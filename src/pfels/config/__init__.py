"""The one validated description of an experiment."""
