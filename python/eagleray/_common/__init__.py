"""What drivers, workers and nodes use alike."""
