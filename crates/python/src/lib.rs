//! The Python face: the only crate that names pyo3.
//!
//! - `session`: the node and the runtime of this process; `init`, `shutdown`.
//! - `door`: the one way out of the interpreter's lock and back.
//! - `encode`, `decode`: Python objects to bytes and back.
//! - `object_ref`, `function`, `actor`: what user code holds.
//! - `generator`: what user code holds of a generator; `generating`: how a worker runs one.
//! - `emitting`: what a running generator's call sends without yielding.
//! - `getting`: `get`, `wait`, `put`.
//! - `execute`: the worker's loop; `event_loop`: the same for async actors.
//! - `errands`: what native threads ask Python to do.
//! - `launch`: the zygote's loop.
//! - `title`: what `ps` shows of a worker.
//! - `output`: what a worker prints, on its way into its files.
//! - `rl`: environments, runners and learners of reinforcement learning.
//! - `tune`: the searchers, schedulers, journal and log files of experiments.

mod actor;
mod arguments;
mod buffer;
mod cluster;
mod context;
mod decode;
mod door;
mod emitting;
mod encode;
mod ending;
mod errands;
mod errors;
mod event_loop;
mod execute;
mod function;
mod generating;
mod generator;
mod getting;
mod groups;
mod inventory;
mod launch;
mod measure;
mod object_ref;
mod output;
mod plain;
mod rl;
mod session;
mod status;
mod surroundings;
mod title;
mod tune;
mod watching;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<object_ref::ObjectRef>()?;
    module.add_class::<generator::ObjectRefGenerator>()?;
    module.add_class::<function::Function>()?;
    module.add_class::<actor::ActorCore>()?;
    module.add_class::<actor::ClassCore>()?;
    module.add_class::<actor::Method>()?;
    module.add_class::<buffer::Buffer>()?;
    module.add_class::<session::Node>()?;
    module.add_class::<launch::Launcher>()?;
    module.add_class::<output::Output>()?;
    session::register(module)?;
    cluster::register(module)?;
    status::register(module)?;
    surroundings::register(module)?;
    watching::register(module)?;
    getting::register(module)?;
    plain::register(module)?;
    context::register(module)?;
    actor::register(module)?;
    object_ref::register(module)?;
    execute::register(module)?;
    event_loop::register(module)?;
    inventory::register(module)?;
    launch::register(module)?;
    measure::register(module)?;
    groups::register(module)?;
    errors::register(module)?;
    errands::register(module)?;
    ending::register(module)?;
    emitting::register(module)?;
    tune::register(module)?;
    rl::register(module)?;
    Ok(())
}
