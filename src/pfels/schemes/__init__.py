"""The schemes, one file each, and the round that they share."""
