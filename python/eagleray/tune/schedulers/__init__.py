"""Who decides which trials go on."""
