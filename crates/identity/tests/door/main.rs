//! The door of a cluster and the lines behind it, in memory: TLS connections whose bytes are carried by hand.

mod joining;
mod members;
mod world;
