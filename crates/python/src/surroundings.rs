//! What a driver's workers take over from it, as Python makes and reads it.

use std::collections::BTreeMap;

use model::EnvVars;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A job's surroundings.
#[pyclass(frozen, eq, module = "eagleray._native")]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Surroundings {
    pub(crate) inner: wire::Surroundings,
}

#[pymethods]
impl Surroundings {
    #[new]
    #[pyo3(signature = (*, folders, cwd, env_vars, is_ray, detaches_actors))]
    fn new(
        folders: Vec<String>,
        cwd: String,
        env_vars: &Bound<'_, PyDict>,
        is_ray: bool,
        detaches_actors: bool,
    ) -> PyResult<Self> {
        let folders = folders.into_iter().map(Into::into).collect();
        let env = env_vars.iter().map(|(name, value)| Ok((boxed(&name)?, boxed(&value)?))).collect::<PyResult<_>>()?;
        Ok(Self { inner: wire::Surroundings { folders, cwd: cwd.into(), env, is_ray, detaches_actors } })
    }

    /// Folders that the driver imports from, in order.
    #[getter]
    fn folders(&self) -> Vec<&str> {
        self.inner.folders.iter().map(|folder| &**folder).collect()
    }

    /// Its working directory.
    #[getter]
    fn cwd(&self) -> &str {
        &self.inner.cwd
    }

    /// The environment variables that it gives all its tasks and actors.
    #[getter]
    fn env_vars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        self.inner.env.iter().try_for_each(|(name, value)| dict.set_item(&**name, &**value)).map(|()| dict)
    }

    /// Whether `ray` is another name of eagleray there.
    #[getter]
    fn is_ray(&self) -> bool {
        self.inner.is_ray
    }

    /// Whether actors that name no lifetime outlive the job.
    #[getter]
    fn detaches_actors(&self) -> bool {
        self.inner.detaches_actors
    }
}

fn boxed(text: &Bound<'_, PyAny>) -> PyResult<Box<str>> {
    text.extract::<String>().map(Into::into)
}

/// Environment variables from Python.
pub(crate) fn env_vars(given: BTreeMap<String, String>) -> EnvVars {
    given.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Environment variables for Python.
pub(crate) fn to_strs(env: &EnvVars) -> BTreeMap<&str, &str> {
    env.iter().map(|(name, value)| (&**name, &**value)).collect()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Surroundings>()
}
