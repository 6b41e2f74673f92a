"""How trials are placed."""
