"""What programs import from Ray's examples of Tune: data, and things to train."""
