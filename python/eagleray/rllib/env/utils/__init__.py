"""What episodes are made of."""
