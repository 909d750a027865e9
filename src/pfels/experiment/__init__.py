"""One run: set-up, rounds, ledger, run directory."""
