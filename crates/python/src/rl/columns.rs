//! Columns that Python holds.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Copies a column into a vector that is there already.
pub(super) fn read<T: Element + Default>(
    py: Python<'_>,
    name: &str,
    column: &PyBuffer<T>,
    into: &mut Vec<T>,
) -> PyResult<()> {
    into.resize(column.item_count(), T::default());
    column.copy_to_slice(py, into).map_err(|error| named(name, &error))
}

/// Writes a column.
pub(super) fn write<T: Element>(py: Python<'_>, name: &str, column: &PyBuffer<T>, from: &[T]) -> PyResult<()> {
    column.copy_from_slice(py, from).map_err(|error| named(name, &error))
}

fn named(name: &str, error: &PyErr) -> PyErr {
    PyValueError::new_err(format!("{name}: {error}"))
}

/// The column must have so many numbers.
pub(super) fn check(name: &str, found: usize, expected: usize) -> PyResult<()> {
    if found == expected {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{name} has {found} numbers instead of {expected}")))
}
