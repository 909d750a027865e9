"""Every document that pfels writes, reads or returns, as a type: run directories, `--json` and the Python API.

The comment behind a field is its description in docs/files.md.
"""
