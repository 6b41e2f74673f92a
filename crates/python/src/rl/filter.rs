//! What brings observations and rewards to one scale.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rl::filter::FilterMoments;

use super::{columns, parsed};

/// A filter without a runner: gathers what runners have seen, and brings observations to scale for who acts without one.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct Filter {
    inner: rl::filter::Filter,
    rows: Vec<f32>,
}

#[pymethods]
impl Filter {
    #[new]
    fn new(spec: &str, observed: usize) -> PyResult<Self> {
        Ok(Self { inner: rl::filter::Filter::new(parsed(spec)?, observed, 0), rows: Vec::new() })
    }

    /// Counts what a runner has seen.
    fn merge(&mut self, delta: &[u8]) -> PyResult<()> {
        if self.inner.merge(&read(delta)?) { Ok(()) } else { Err(misfit()) }
    }

    /// What all have seen.
    fn moments<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        written(py, &self.inner.moments())
    }

    /// Takes over what all have seen.
    fn set_moments(&mut self, moments: &[u8]) -> PyResult<()> {
        if self.inner.set_moments(&read(moments)?) { Ok(()) } else { Err(misfit()) }
    }

    /// How many observations were seen, their means and their deviations.
    fn observed(&self) -> (f64, Vec<f64>, Vec<f64>) {
        let moments = self.inner.moments().observed;
        let deviations = (0..moments.columns()).map(|column| moments.variance(column).sqrt()).collect();
        (moments.count, moments.means, deviations)
    }

    /// Brings these rows to scale, in place.
    fn scale(&mut self, py: Python<'_>, rows: PyBuffer<f32>) -> PyResult<()> {
        let size = self.inner.moments().observed.columns().max(1);
        columns::check("rows", rows.item_count(), rows.item_count() / size * size)?;
        columns::read(py, "rows", &rows, &mut self.rows)?;
        self.inner.scale(&mut self.rows);
        columns::write(py, "rows", &rows, &self.rows)
    }
}

/// Moments as they travel.
pub(super) fn written<'py>(py: Python<'py>, moments: &FilterMoments) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &postcard::to_stdvec(moments).expect("plain data"))
}

/// Moments that travelled.
pub(super) fn read(bytes: &[u8]) -> PyResult<FilterMoments> {
    postcard::from_bytes(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
}

pub(super) fn misfit() -> PyErr {
    PyValueError::new_err("the moments are of observations of another size")
}
