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
        let mut variables = self.inner.env.iter().filter(|(name, _)| !name.starts_with(MARK));
        variables.try_for_each(|(name, value)| dict.set_item(&**name, &**value)).map(|()| dict)
    }

    /// The packages of folders that they work with: names by field.
    #[getter]
    fn packages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let mut packages = self.inner.env.iter().filter_map(|(name, value)| Some((name.strip_prefix(MARK)?, value)));
        packages.try_for_each(|(field, names)| dict.set_item(field, &**names)).map(|()| dict)
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

/// Before the name of what stands among environment variables and is none, so that processes are told apart by it: no variable has such a
/// name.
const MARK: char = '=';

/// Environment variables for Python.
pub(crate) fn to_strs(env: &EnvVars) -> BTreeMap<&str, &str> {
    env.iter().map(|(name, value)| (&**name, &**value)).filter(|(name, _)| !name.starts_with(MARK)).collect()
}

/// The packages that stand among environment variables, for Python: names by field.
pub(crate) fn packages(env: &EnvVars) -> BTreeMap<&str, &str> {
    env.iter().filter_map(|(name, value)| Some((name.strip_prefix(MARK)?, &**value))).collect()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Surroundings>()
}
