"""Presets: short differences from the defaults in `pfels.config`."""
