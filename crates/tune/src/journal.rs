//! The append-only, checksummed file of one experiment.
