"""Experiments and their trials."""
