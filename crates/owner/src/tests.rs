//! Small stories of one owner, and random ones.

mod actors;
mod borrow;
mod cancel;
mod leases;
mod objects;
mod random;
mod story;
mod tasks;
