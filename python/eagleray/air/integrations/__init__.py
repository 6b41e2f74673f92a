"""Trackers of experiments that people use beside Tune: MLflow, Weights & Biases, Comet. Each needs its own package, and says so."""
