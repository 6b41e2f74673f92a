"""Algorithms by their newer names."""
