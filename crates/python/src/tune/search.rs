//! Searchers: `Search(kind, params, seed, options)` with `ask`, `tell`, `report`, `adopt` and `retrace`.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tune::search::{Cma, CmaOptions, Gp, GpOptions, Outcome, Random, Search, Sobol, Tpe, TpeOptions};
use tune::space::{Condition, Domain, Param, Point, Space, Value};

use crate::door::enter;

/// A parameter as Python says it: its name, its kind, the numbers of that kind, and its conditions.
///
/// `float` and `log_float`: low, high, step (0 for none). `int` and `log_int`: low, high, step. `normal`: mean, deviation, step.
/// `choice`: how many.
type PyParam = (String, String, Vec<f64>, Vec<(usize, Vec<u32>)>);

/// A value as Python sees it: a float or an int; of a choice, its index.
#[derive(FromPyObject, IntoPyObject)]
enum PyNumber {
    Int(i64),
    Float(f64),
}

/// A searcher of this crate's, whose values are numbers and indices.
#[pyclass(name = "Search", module = "eagleray._native.tune")]
struct PySearch {
    space: Space,
    inner: Box<dyn Search + Sync>,
}

#[pymethods]
impl PySearch {
    #[new]
    #[pyo3(signature = (kind, params, seed, options))]
    fn new(kind: &str, params: Vec<PyParam>, seed: u64, options: HashMap<String, f64>) -> PyResult<Self> {
        let params = params.into_iter().map(to_param).collect::<PyResult<_>>()?;
        let space = Space::new(params).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let inner = make(kind, space.clone(), seed, &options)?;
        Ok(Self { space, inner })
    }

    /// The next point for a trial: a number for each parameter, None where it does not count. None if there is none.
    fn ask(&mut self, py: Python<'_>, trial: u64) -> Option<Vec<Option<PyNumber>>> {
        let point = enter(py, || self.inner.ask(trial))?;
        Some(point.into_iter().map(|value| value.map(from_value)).collect())
    }

    /// A trial has ended, with a value or without.
    #[pyo3(signature = (trial, value=None))]
    fn tell(&mut self, trial: u64, value: Option<f64>) {
        self.inner.tell(trial, value.map_or(Outcome::Failed, Outcome::Value));
    }

    /// A trial was stopped early; what it reported last counts.
    fn prune(&mut self, trial: u64) {
        self.inner.tell(trial, Outcome::Pruned);
    }

    /// What a trial has reached at a step.
    fn report(&mut self, trial: u64, step: f64, value: f64) {
        self.inner.report(trial, step, value);
    }

    /// Takes a point of another's choice as if it had been asked for; false if it does not lie in the space.
    fn adopt(&mut self, trial: u64, point: Vec<Option<PyNumber>>) -> bool {
        let point = self.point_inside(point);
        point.map(|point| self.inner.adopt(trial, point)).is_some()
    }

    /// What the latest `ask` has left behind beside its point.
    fn residue(&self) -> Vec<f64> {
        self.inner.residue()
    }

    /// As `ask`, whose answer and residue are known from an earlier run; false, and nothing done, if it does not lie in the space.
    fn retrace(&mut self, trial: u64, point: Vec<Option<PyNumber>>, residue: Vec<f64>) -> bool {
        let point = self.point_inside(point);
        point.map(|point| self.inner.retrace(trial, point, &residue)).is_some()
    }
}

impl PySearch {
    fn point_inside(&self, point: Vec<Option<PyNumber>>) -> Option<Point> {
        if point.len() != self.space.len() {
            return None;
        }
        let values = point.into_iter().zip(self.space.params());
        let point: Point =
            values.map(|(number, param)| number.map(|number| to_value(&number, &param.domain))).collect();
        self.space.contains(&point).then_some(point)
    }
}

fn make(kind: &str, space: Space, seed: u64, options: &HashMap<String, f64>) -> PyResult<Box<dyn Search + Sync>> {
    let count = |name: &str| options.get(name).map(|number| *number as usize);
    Ok(match kind {
        "random" => Box::new(Random::new(space, seed)),
        "sobol" => Box::new(Sobol::new(space, seed)),
        "tpe" => {
            let defaults = TpeOptions::default();
            let options = TpeOptions {
                multivariate: options.get("multivariate").map_or(defaults.multivariate, |flag| *flag != 0.0),
                startup_trials: count("startup_trials").unwrap_or(defaults.startup_trials),
                candidates: count("candidates").unwrap_or(defaults.candidates),
                prior_weight: options.get("prior_weight").copied().unwrap_or(defaults.prior_weight),
            };
            Box::new(Tpe::new(space, seed, options))
        }
        "cma" => {
            let options = CmaOptions { population: count("population"), deviation: options.get("deviation").copied() };
            Box::new(Cma::new(space, seed, options))
        }
        "gp" => {
            let defaults = GpOptions::default();
            let options = GpOptions {
                startup_trials: count("startup_trials").unwrap_or(defaults.startup_trials),
                trials_max: count("trials_max").unwrap_or(defaults.trials_max),
            };
            Box::new(Gp::new(space, seed, options))
        }
        _ => return Err(PyValueError::new_err(format!("there is no searcher {kind:?}"))),
    })
}

fn to_param((name, kind, numbers, when): PyParam) -> PyResult<Param> {
    let step = |number: f64| (number != 0.0).then_some(number);
    let domain = match (&*kind, &*numbers) {
        ("float" | "log_float", &[low, high, by]) => {
            Domain::Float { low, high, log: kind == "log_float", step: step(by) }
        }
        ("int" | "log_int", &[low, high, by]) => {
            Domain::Int { low: low as i64, high: high as i64, log: kind == "log_int", step: by as i64 }
        }
        ("normal", &[mean, deviation, by]) => Domain::Normal { mean, deviation, step: step(by) },
        ("choice", &[count]) => Domain::Choice { count: count as u32 },
        _ => return Err(PyValueError::new_err(format!("parameter {name}: {kind} with {numbers:?} is no domain"))),
    };
    let when = when.into_iter().map(|(param, values)| Condition { param, values }).collect();
    Ok(Param { name, domain, when })
}

fn from_value(value: Value) -> PyNumber {
    match value {
        Value::Float(x) => PyNumber::Float(x),
        Value::Int(x) => PyNumber::Int(x),
        Value::Choice(x) => PyNumber::Int(i64::from(x)),
    }
}

fn to_value(number: &PyNumber, domain: &Domain) -> Value {
    match (number, domain) {
        (PyNumber::Int(x), Domain::Choice { .. }) => Value::Choice(u32::try_from(*x).unwrap_or(u32::MAX)),
        (PyNumber::Int(x), Domain::Int { .. }) => Value::Int(*x),
        (PyNumber::Int(x), _) => Value::Float(*x as f64),
        (PyNumber::Float(x), Domain::Int { .. }) if x.fract() == 0.0 => Value::Int(*x as i64),
        (PyNumber::Float(x), _) => Value::Float(*x),
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySearch>()
}
