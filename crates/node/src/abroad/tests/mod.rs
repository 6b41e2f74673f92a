//! Carriers' threads with real sockets and memory of their own, and no processes: nodes as other nodes see them.

mod attacks;
mod certificates;
mod entering;
mod proxy;
mod resuming;
mod station;
