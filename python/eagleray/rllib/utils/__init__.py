"""Small things that several parts use."""
