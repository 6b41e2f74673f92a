//! Files of a trial that other tools read: CSV, JSON lines, TensorBoard events.
