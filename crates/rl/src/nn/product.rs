//! Products of matrices: the one place that calls the `gemm` crates.
#![allow(unsafe_code)]

use super::Real;

/// A matrix that lies row by row in a slice, or its transpose.
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    row_step: isize,
    column_step: isize,
}

impl Matrix<'_, f64> {
    #[inline]
    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.row_step as usize + column * self.column_step as usize]
    }
}

impl<'a, T> Matrix<'a, T> {
    /// `rows` of `columns` each.
    pub(crate) fn new(values: &'a [T], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a matrix of {rows} x {columns}");
        Self { values, rows, columns, row_step: columns as isize, column_step: 1 }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, row_step: self.column_step, column_step: self.row_step, ..self }
    }
}

/// `into = left * right`, or `into += left * right` if `is_added`. `into` lies row by row.
pub(crate) fn multiply<T: Real>(into: &mut [T], is_added: bool, left: Matrix<'_, T>, right: Matrix<'_, T>) {
    assert_eq!(left.columns, right.rows);
    assert_eq!(into.len(), left.rows * right.columns);
    if !into.is_empty() {
        T::multiply(into, is_added, left, right);
    }
}

/// How a product of matrices that fit each other is computed in a float type.
pub trait Product: Sized {
    /// As [`multiply`], with everything checked and nothing empty.
    fn multiply(into: &mut [Self], is_added: bool, left: Matrix<'_, Self>, right: Matrix<'_, Self>);
}

impl Product for f32 {
    #[inline]
    fn multiply(into: &mut [Self], is_added: bool, left: Matrix<'_, Self>, right: Matrix<'_, Self>) {
        // The kernel wants columns that lie in one piece, and `into` has rows that do: so it computes the transposed product of the transposed.
        //
        // SAFETY: each matrix lies in its slice with these steps (checked when it was made), and `into` is exactly as large as the product; it
        // overlaps with neither since it is borrowed for writing.
        unsafe {
            gemm_f32::gemm::f32::get_gemm_fn()(
                right.columns,
                left.rows,
                left.columns,
                into.as_mut_ptr(),
                right.columns as isize,
                1,
                is_added,
                right.values.as_ptr(),
                right.row_step,
                right.column_step,
                left.values.as_ptr(),
                left.row_step,
                left.column_step,
                1.0,
                1.0,
                false,
                false,
                false,
                gemm_common::Parallelism::None,
            );
        }
    }
}

/// Only gradients are checked in it: plain is quick enough, and a second set of kernels would take seconds to build.
impl Product for f64 {
    fn multiply(into: &mut [Self], is_added: bool, left: Matrix<'_, Self>, right: Matrix<'_, Self>) {
        if !is_added {
            into.fill(0.0);
        }
        for (row, sums) in into.chunks_exact_mut(right.columns).enumerate() {
            for inner in 0..left.columns {
                let factor = left.at(row, inner);
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum += factor * right.at(inner, column);
                }
            }
        }
    }
}

/// Writes a matrix of `rows` the other way round. Products with a transpose go through this where the matrix is large: `gemm` itself turns what it
/// packs three times slower.
pub(crate) fn turn<T: Real>(from: &[T], rows: usize, columns: usize, into: &mut Vec<T>) {
    /// Rows and columns that stay near while they are turned.
    const NEAR: usize = 16;
    assert_eq!(from.len(), rows * columns, "a matrix of {rows} x {columns}");
    into.resize(from.len(), T::ZERO);
    for row in (0..rows).step_by(NEAR) {
        let row_end = (row + NEAR).min(rows);
        for column in (0..columns).step_by(NEAR) {
            for column in column..(column + NEAR).min(columns) {
                let into = &mut into[column * rows + row..column * rows + row_end];
                into.iter_mut().zip(row..).for_each(|(into, row)| *into = from[row * columns + column]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Matrix, multiply, turn};

    #[test]
    fn what_is_turned_twice_is_as_it_was() {
        let (rows, columns) = (37, 18);
        let matrix: Vec<f64> = (0..rows * columns).map(|at| at as f64).collect();
        let (mut turned, mut again) = (Vec::new(), Vec::new());
        turn(&matrix, rows, columns, &mut turned);
        assert!((0..matrix.len()).all(|at| turned[at % columns * rows + at / columns] == matrix[at]));
        turn(&turned, columns, rows, &mut again);
        assert_eq!(again, matrix);
    }

    #[test]
    fn products_of_all_four_kinds_are_those_of_the_definition() {
        let (m, k, n) = (5, 7, 3);
        let left: Vec<f64> = (0..m * k).map(|at| (at * 7 % 11) as f64 - 5.0).collect();
        let right: Vec<f64> = (0..k * n).map(|at| (at * 5 % 13) as f64 - 6.0).collect();
        let turned = |values: &[f64], rows: usize, columns: usize| -> Vec<f64> {
            (0..rows * columns).map(|at| values[(at % rows) * columns + at / rows]).collect()
        };
        let (left_turned, right_turned) = (turned(&left, m, k), turned(&right, k, n));
        let expected: Vec<f64> = (0..m * n)
            .map(|at| (0..k).map(|inner| left[at / n * k + inner] * right[inner * n + at % n]).sum::<f64>())
            .collect();
        for left in [Matrix::new(&left, m, k), Matrix::new(&left_turned, k, m).transposed()] {
            for right in [Matrix::new(&right, k, n), Matrix::new(&right_turned, n, k).transposed()] {
                let mut into = vec![1.0; m * n];
                multiply(&mut into, true, left, right);
                assert!(into.iter().zip(&expected).all(|(got, expected)| *got == expected + 1.0));
                multiply(&mut into, false, left, right);
                assert_eq!(into, expected);
            }
        }
    }
}
