"""How failures become exceptions that a user can read, copy and pickle."""
