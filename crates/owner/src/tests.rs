//! Small stories of one owner, and random ones.

mod actors;
mod borrow;
mod cancel;
mod estate;
mod free;
mod heirs;
mod keeping;
mod leases;
mod lineage;
mod moving;
mod objects;
mod past;
mod random;
mod random_keeping;
mod random_lineage;
mod random_replay;
mod random_shelf;
mod random_streams;
mod records;
mod refused;
mod replay;
mod shelf;
mod story;
mod streams;
mod tasks;
