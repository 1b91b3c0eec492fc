"""The real server, killed while it works."""
