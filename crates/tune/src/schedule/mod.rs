//! Who goes on, pauses or stops.
