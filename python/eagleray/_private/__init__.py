"""Names under which older programs look for what is public elsewhere."""
