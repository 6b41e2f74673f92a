//! `eagleray._native.tune`: faces of the `tune` crate. They hold `inner` and convert, nothing more.

mod journal;
mod logs;
mod schedule;
mod search;
mod summary;
mod value;

use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let tune = PyModule::new(module.py(), "tune")?;
    search::register(&tune)?;
    schedule::register(&tune)?;
    journal::register(&tune)?;
    logs::register(&tune)?;
    summary::register(&tune)?;
    module.add_submodule(&tune)
}
