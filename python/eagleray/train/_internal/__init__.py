"""Names inside Ray's Train that libraries import although they are not public."""
