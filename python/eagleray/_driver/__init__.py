"""What a driver has: its session, and what it prints of its workers."""
