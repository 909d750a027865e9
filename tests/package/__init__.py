"""The package as users get it: built, installed in a clean environment, and tried."""
