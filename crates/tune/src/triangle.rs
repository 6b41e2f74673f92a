//! Lower triangular matrices, packed row by row, and what a Gaussian process needs of them.
//!
//! HOT: a third of n^3 multiplications per factorisation. Rows are contiguous and inner loops run over plain slices.

/// A lower triangular or a symmetric matrix; row i has i + 1 numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Triangle {
    numbers: Vec<f64>,
    size: usize,
}

const fn start(row: usize) -> usize {
    row * (row + 1) / 2
}

impl Triangle {
    pub(crate) fn zeros(size: usize) -> Self {
        Self { numbers: vec![0.0; start(size)], size }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn row(&self, at: usize) -> &[f64] {
        &self.numbers[start(at)..start(at + 1)]
    }

    pub(crate) fn row_mut(&mut self, at: usize) -> &mut [f64] {
        &mut self.numbers[start(at)..start(at + 1)]
    }

    pub(crate) fn diagonal(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.size).map(|at| self.numbers[start(at) + at])
    }

    /// Adds a row at the bottom.
    pub(crate) fn push_row(&mut self, row: &[f64]) {
        debug_assert_eq!(row.len(), self.size + 1);
        self.numbers.extend_from_slice(row);
        self.size += 1;
    }

    /// Turns a symmetric matrix into its Cholesky factor; false if it is not positive definite.
    pub(crate) fn factor(&mut self) -> bool {
        for i in 0..self.size {
            let (done, rest) = self.numbers.split_at_mut(start(i));
            let row = &mut rest[..=i];
            if !solve_row(done, row, i) {
                return false;
            }
        }
        true
    }

    /// Extends a Cholesky factor by one row of the matrix that it is the factor of.
    pub(crate) fn extend_factor(&mut self, mut row: Vec<f64>) -> bool {
        let is_definite = solve_row(&self.numbers, &mut row, self.size);
        if is_definite {
            self.push_row(&row);
        }
        is_definite
    }

    /// The inverse of a triangular matrix.
    pub(crate) fn inverse(&self) -> Self {
        let mut inverse = Self::default();
        inverse.numbers.reserve(self.numbers.len());
        for at in 0..self.size {
            inverse.extend_inverse(self.row(at));
        }
        inverse
    }

    /// Extends the inverse of a triangular matrix by the row that the matrix got.
    pub(crate) fn extend_inverse(&mut self, row: &[f64]) {
        let at = self.size;
        let scale = 1.0 / row[at];
        let mut new = vec![0.0; at + 1];
        for (k, &factor) in row[..at].iter().enumerate() {
            axpy(&mut new[..=k], factor, self.row(k));
        }
        new.iter_mut().for_each(|number| *number *= -scale);
        new[at] = scale;
        self.push_row(&new);
    }

    /// Solves `self * x = values`.
    pub(crate) fn solve(&self, values: &[f64]) -> Vec<f64> {
        let mut solved: Vec<f64> = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            let row = self.row(at);
            solved.push((value - dot(&solved, &row[..at])) / row[at]);
        }
        solved
    }

    /// Solves `transposed self * x = values`.
    pub(crate) fn solve_transposed(&self, values: &[f64]) -> Vec<f64> {
        let mut left = values.to_vec();
        for at in (0..left.len()).rev() {
            let row = self.row(at);
            left[at] /= row[at];
            let solved = left[at];
            axpy(&mut left[..at], -solved, &row[..at]);
        }
        left
    }

    /// The transpose times the matrix itself, of which the lower half is returned.
    pub(crate) fn gram(&self) -> Self {
        let mut gram = Self::zeros(self.size);
        for k in 0..self.size {
            let row = self.row(k);
            for (i, &factor) in row.iter().enumerate() {
                axpy(gram.row_mut(i), factor, &row[..=i]);
            }
        }
        gram
    }

    /// The matrix times a vector.
    pub(crate) fn times(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.size).map(|at| dot(self.row(at), &vector[..=at])).collect()
    }

    /// The transpose times a vector.
    pub(crate) fn transposed_times(&self, vector: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.size];
        for (at, &factor) in vector.iter().enumerate() {
            axpy(&mut out[..=at], factor, self.row(at));
        }
        out
    }

    /// The sum of squares of the matrix times a vector.
    pub(crate) fn squared_norm_of(&self, vector: &[f64]) -> f64 {
        (0..self.size).map(|at| dot(self.row(at), &vector[..=at])).map(|x| x * x).sum()
    }
}

/// Makes a row of a symmetric matrix a row of its factor, of which `done` has those above.
fn solve_row(done: &[f64], row: &mut [f64], at: usize) -> bool {
    for j in 0..at {
        let above = &done[start(j)..=start(j) + j];
        row[j] = (row[j] - dot(&row[..j], &above[..j])) / above[j];
    }
    let rest = row[at] - dot(&row[..at], &row[..at]);
    row[at] = rest.max(0.0).sqrt();
    rest > 0.0 && rest.is_finite()
}

/// Eight sums side by side, so that no addition waits for the one before.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_parts, a_rest) = a.as_chunks::<8>();
    let (b_parts, b_rest) = b[..a.len()].as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (x, y) in a_parts.iter().zip(b_parts) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    (sums[0] + sums[4]) + (sums[1] + sums[5]) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + rest
}

fn axpy(out: &mut [f64], factor: f64, row: &[f64]) {
    for (sum, x) in out.iter_mut().zip(row) {
        *sum += factor * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_and_inverse_undo_the_matrix() {
        let size = 37;
        let mut rng = crate::rng::Rng::seeded(1);
        let rows: Vec<Vec<f64>> = (0..size).map(|_| (0..size).map(|_| rng.normal()).collect()).collect();
        let entry = |i: usize, j: usize| dot(&rows[i], &rows[j]) + if i == j { 0.1 } else { 0.0 };
        let mut whole = Triangle::zeros(size);
        (0..size).for_each(|i| (0..=i).for_each(|j| whole.row_mut(i)[j] = entry(i, j)));
        let mut factor = whole.clone();
        assert!(factor.factor());
        let mut grown = Triangle::default();
        (0..size).for_each(|i| assert!(grown.extend_factor(whole.row(i).to_vec())));
        assert_eq!(factor.numbers, grown.numbers);
        let inverse = factor.inverse().gram();
        let vector: Vec<f64> = (0..size).map(|_| rng.normal()).collect();
        let product: Vec<f64> = (0..size).map(|i| (0..size).map(|j| entry(i, j) * vector[j]).sum()).collect();
        for (i, x) in vector.iter().enumerate() {
            let back: f64 = (0..size).map(|j| inverse.row(i.max(j))[i.min(j)] * product[j]).sum();
            assert!((back - x).abs() < 1e-8, "{back} {x}");
        }
        let solved = factor.solve_transposed(&factor.solve(&product));
        assert!(solved.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-8));
        let by_halves = factor.inverse().transposed_times(&factor.inverse().times(&product));
        assert!(by_halves.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-8));
    }

    #[test]
    fn what_is_not_positive_definite_has_no_factor() {
        let mut matrix = Triangle::zeros(2);
        matrix.row_mut(0)[0] = 1.0;
        matrix.row_mut(1).copy_from_slice(&[2.0, 1.0]);
        assert!(!matrix.factor());
    }
}
