//! For benches: where a call's time goes, and what the machine allows.

use std::sync::atomic::{AtomicU32, Ordering};

use net::bell::{futex_wait, futex_wake};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use runtime::{STAGES, Stage};

/// Seconds per round trip between two threads that hand a number back and forth: by spinning ("spin"), or each sleeping until the
/// other one wakes it ("futex"). What no call can beat.
#[pyfunction]
fn measure_round_trip(py: Python<'_>, kind: &str, rounds: u32) -> PyResult<f64> {
    let sleeps = match kind {
        "spin" => false,
        "futex" => true,
        _ => return Err(PyValueError::new_err("measure 'spin' or 'futex'")),
    };
    Ok(crate::door::enter(py, || round_trip(sleeps, rounds.max(1))))
}

fn round_trip(sleeps: bool, rounds: u32) -> f64 {
    let (there, back) = (AtomicU32::new(0), AtomicU32::new(0));
    let wait = |word: &AtomicU32, value: u32| {
        while word.load(Ordering::Acquire) != value {
            if sleeps {
                futex_wait(word, value - 1, None);
            } else {
                std::hint::spin_loop();
            }
        }
    };
    let tell = |word: &AtomicU32, value: u32| {
        word.store(value, Ordering::Release);
        if sleeps {
            futex_wake(word);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                wait(&there, round);
                tell(&back, round);
            }
        });
        let start = net::clock::now_ns();
        for round in 1..=rounds {
            tell(&there, round);
            wait(&back, round);
        }
        (net::clock::now_ns() - start) as f64 / 1e9 / f64::from(rounds)
    })
}

/// Starts measuring the stages of calls in this process, from zero.
#[pyfunction]
fn stage_times_start() {
    Stage::start_all();
}

/// Mean microseconds per stage since `stage_times_start`, of the stages that this process takes part in.
#[pyfunction]
fn stage_times(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, stage) in STAGES {
        let (mean_ns, count) = stage.mean_ns();
        if count > 0 {
            dict.set_item(name, mean_ns / 1_000.0)?;
        }
    }
    Ok(dict)
}

/// Stops measuring.
#[pyfunction]
fn stage_times_stop() {
    Stage::stop_all();
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stage_times_start, module)?)?;
    module.add_function(wrap_pyfunction!(measure_round_trip, module)?)?;
    module.add_function(wrap_pyfunction!(stage_times, module)?)?;
    module.add_function(wrap_pyfunction!(stage_times_stop, module)?)
}
