//! Products of matrices: the one place that calls the `gemm` crate.
#![allow(unsafe_code)]

use super::Real;

/// A matrix that lies row by row in a slice, or its transpose.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    row_step: isize,
    column_step: isize,
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
    if into.is_empty() {
        return;
    }
    // SAFETY: each matrix lies in its slice with these steps (checked when it was made), and `into` is exactly as large as the product; it
    // overlaps with neither since it is borrowed for writing.
    unsafe {
        gemm::gemm(
            left.rows,
            right.columns,
            left.columns,
            into.as_mut_ptr(),
            1,
            right.columns as isize,
            is_added,
            left.values.as_ptr(),
            left.column_step,
            left.row_step,
            right.values.as_ptr(),
            right.column_step,
            right.row_step,
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Matrix, multiply};

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
