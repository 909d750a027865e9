"""File formats, read and written as arrays."""
