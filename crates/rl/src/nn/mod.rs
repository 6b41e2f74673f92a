//! Networks: fixed plans of layers over flat vectors of parameters, with gradients by hand.

mod image;
mod init;
mod layout;
mod lstm;
mod net;
mod optimiser;
mod product;
mod real;

pub use image::{ImageError, ImageSpec};
pub use init::Start;
pub use layout::{Layout, Tensor, WeightsError};
pub use net::{Activation, Net, Tape};
pub use optimiser::{Adam, Optimiser, OptimiserSpec, RmsProp, clip_by_norm, norm};
pub use real::Real;

pub(crate) use init::Gain;
pub(crate) use lstm::{Lstm, LstmTape, Sequences};
pub(crate) use net::Inputs;
pub(crate) use optimiser::{clip_factor, sum_of_squares};
pub(crate) use product::{Matrix, multiply, turn};
