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

/// Writes those rows of a column that have one of two flags; the others stay as they are.
pub(super) fn write_rows(name: &str, column: &PyBuffer<f32>, from: &[f32], flags: [&[bool]; 2]) -> PyResult<()> {
    /// Flags that are looked at together. Most are not set, and a branch for each would cost as much as a copy of all rows.
    const BLOCK: usize = 16;
    let start = start_of(name, column, from.len())?;
    let size = from.len() / flags[0].len().max(1);
    for (block, (one, other)) in flags[0].chunks(BLOCK).zip(flags[1].chunks(BLOCK)).enumerate() {
        if !one.iter().chain(other).fold(false, |any, flag| any | flag) {
            continue;
        }
        for row in (0..one.len()).filter(|row| one[*row] | other[*row]) {
            let row = block * BLOCK + row;
            let from = &from[row * size..(row + 1) * size];
            // SAFETY: as above; the row lies within what `from` has, and Python's memory is not ours.
            unsafe { start.add(row * size).copy_from_nonoverlapping(from.as_ptr(), size) };
        }
    }
    Ok(())
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
