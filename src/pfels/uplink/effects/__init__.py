"""What a channel does to transmissions: one effect, one file."""
