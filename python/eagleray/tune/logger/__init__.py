"""What is written of each trial."""
