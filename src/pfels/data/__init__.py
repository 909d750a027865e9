"""Examples on devices: data sets, their cache and their partition."""
