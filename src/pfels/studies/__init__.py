"""Questions about many runs, or about none."""
