//! Networks: fixed plans of layers over flat vectors of parameters, with gradients by hand.

mod init;
mod layout;
mod net;
mod optimiser;
mod product;
mod real;

pub use layout::{Layout, Tensor, WeightsError};
pub use net::{Activation, Net, Tape};
pub use optimiser::{Adam, Optimiser, OptimiserSpec, RmsProp, clip_by_norm, norm};
pub use real::Real;

pub(crate) use init::Gain;
pub(crate) use product::{Matrix, multiply};
