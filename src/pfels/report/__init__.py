"""Results for people: an HTML page and tables in a terminal."""
