//! Who proposes the next point: ask and tell.
