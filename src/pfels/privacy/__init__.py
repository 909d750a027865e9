"""What rounds release, what it costs and against whom."""
