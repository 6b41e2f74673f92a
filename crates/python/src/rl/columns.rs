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

/// Writes a column of flags, a byte each.
pub(super) fn write_flags(name: &str, column: &PyBuffer<u8>, from: &[bool]) -> PyResult<()> {
    let start = start_of(name, column, from.len())?;
    for (at, flag) in from.iter().enumerate() {
        // SAFETY: `start_of` has seen that there are as many as in `from`, one behind the other, and that they may be written.
        unsafe { start.add(at).write(u8::from(*flag)) };
    }
    Ok(())
}

/// Columns to write into where they lie. Another thread that uses them at the same time sees some of it, as with any library that lets the
/// interpreter's lock go.
pub(super) fn writable<'a, const N: usize>(
    columns: [(&str, &'a mut PyBuffer<f32>, usize); N],
) -> PyResult<[&'a mut [f32]; N]> {
    let mut starts = [std::ptr::null_mut(); N];
    for (start, (name, column, count)) in starts.iter_mut().zip(&columns) {
        *start = start_of(name, column, *count)?;
    }
    let range = |at: usize| starts[at] as usize..starts[at] as usize + columns[at].2 * size_of::<f32>();
    for (at, other) in (0..N).flat_map(|at| (0..at).map(move |other| (at, other))) {
        if range(at).start < range(other).end && range(other).start < range(at).end {
            let (name, other) = (columns[at].0, columns[other].0);
            return Err(PyValueError::new_err(format!("{name} and {other} are the same memory")));
        }
    }
    // SAFETY: each has so many numbers, one behind the other, that may be written, no two share any, and all are held for as long.
    Ok(std::array::from_fn(|at| unsafe { std::slice::from_raw_parts_mut(starts[at], columns[at].2) }))
}

fn start_of<T: Element>(name: &str, column: &PyBuffer<T>, expected: usize) -> PyResult<*mut T> {
    let numbers = column.as_slice_ptr().filter(|_| !column.readonly());
    let numbers = numbers.ok_or_else(|| PyValueError::new_err(format!("{name} must be contiguous and writable")))?;
    check(name, numbers.len(), expected)?;
    Ok(numbers.as_ptr().cast())
}

/// Whether there is neither an infinity nor anything that is no number.
pub(super) fn is_finite(column: &PyBuffer<f32>) -> PyResult<bool> {
    let numbers = column.as_slice_ptr().ok_or_else(|| PyValueError::new_err("the column must be contiguous"))?;
    let start: *const f32 = numbers.as_ptr().cast();
    // All of them, several at a time: cheaper than to stop at the first.
    // SAFETY: there are so many, one behind the other.
    Ok((0..numbers.len()).fold(true, |is_finite, at| is_finite & unsafe { start.add(at).read() }.is_finite()))
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
