"""Data sets on disk: what is known of each, where they live, how they get there, and how they are read as arrays."""
