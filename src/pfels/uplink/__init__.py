"""From updates to what the server receives, as pure functions: cohort, clip, compress, scale, superpose."""
