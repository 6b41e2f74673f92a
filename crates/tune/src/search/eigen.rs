//! Eigenvalues and eigenvectors of small symmetric matrices, by Jacobi's rotations.

/// A square matrix, row by row.
pub(crate) type Square = Vec<Vec<f64>>;

/// Eigenvalues, and the eigenvectors as columns.
pub(crate) fn decompose(matrix: &Square) -> (Vec<f64>, Square) {
    const SWEEPS_MAX: usize = 60;
    let size = matrix.len();
    let mut rest = matrix.clone();
    let mut vectors: Square = (0..size).map(|i| (0..size).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for _ in 0..SWEEPS_MAX {
        let off: f64 = (0..size).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| rest[i][j].powi(2)).sum();
        let whole: f64 = (0..size).map(|i| rest[i][i].powi(2)).sum();
        if off <= 1e-26 * whole {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                rotate(&mut rest, &mut vectors, p, q);
            }
        }
    }
    ((0..size).map(|i| rest[i][i]).collect(), vectors)
}

/// Makes the entry at (p, q) zero.
fn rotate(rest: &mut Square, vectors: &mut Square, p: usize, q: usize) {
    if rest[p][q] == 0.0 {
        return;
    }
    let theta = (rest[q][q] - rest[p][p]) / (2.0 * rest[p][q]);
    let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    for row in rest.iter_mut().chain(vectors.iter_mut()) {
        let (a, b) = (row[p], row[q]);
        row[p] = cosine * a - sine * b;
        row[q] = sine * a + cosine * b;
    }
    let (above, below) = rest.split_at_mut(q);
    for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
        let (a, b) = (*x, *y);
        *x = cosine * a - sine * b;
        *y = sine * a + cosine * b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_make_the_matrix() {
        let matrix = vec![vec![4.0, 1.0, -2.0], vec![1.0, 3.0, 0.5], vec![-2.0, 0.5, 5.0]];
        let (values, vectors) = decompose(&matrix);
        for i in 0..3 {
            for j in 0..3 {
                let entry: f64 = (0..3).map(|k| vectors[i][k] * values[k] * vectors[j][k]).sum();
                assert!((entry - matrix[i][j]).abs() < 1e-10);
            }
        }
    }
}
