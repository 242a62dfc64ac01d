//! Systems of as many linear equations as there are constants.

use crate::constants::CONSTANTS;

/// A square matrix over the constants.
pub type SquareMatrix = [[f64; CONSTANTS]; CONSTANTS];

/// Solves a symmetric positive definite system by Cholesky's method; None if it is not positive definite.
pub(super) fn solve(matrix: &SquareMatrix, right: &[f64; CONSTANTS]) -> Option<[f64; CONSTANTS]> {
    let lower = cholesky(matrix)?;
    let mut middle = [0.0; CONSTANTS];
    for row in 0..CONSTANTS {
        let known: f64 = (0..row).map(|column| lower[row][column] * middle[column]).sum();
        middle[row] = (right[row] - known) / lower[row][row];
    }
    let mut found = [0.0; CONSTANTS];
    for row in (0..CONSTANTS).rev() {
        let known: f64 = (row + 1..CONSTANTS).map(|column| lower[column][row] * found[column]).sum();
        found[row] = (middle[row] - known) / lower[row][row];
    }
    Some(found)
}

/// The inverse of such a matrix.
pub(super) fn inverse(matrix: &SquareMatrix) -> Option<SquareMatrix> {
    let mut inverse = [[0.0; CONSTANTS]; CONSTANTS];
    for column in 0..CONSTANTS {
        let mut right = [0.0; CONSTANTS];
        right[column] = 1.0;
        let solved = solve(matrix, &right)?;
        for row in 0..CONSTANTS {
            inverse[row][column] = solved[row];
        }
    }
    Some(inverse)
}

fn cholesky(matrix: &SquareMatrix) -> Option<SquareMatrix> {
    let mut lower = [[0.0; CONSTANTS]; CONSTANTS];
    for row in 0..CONSTANTS {
        for column in 0..=row {
            let known: f64 = (0..column).map(|other| lower[row][other] * lower[column][other]).sum();
            let left = matrix[row][column] - known;
            if row == column {
                if left <= 0.0 || !left.is_finite() {
                    return None;
                }
                lower[row][row] = left.sqrt();
            } else {
                lower[row][column] = left / lower[column][column];
            }
        }
    }
    Some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_solved_and_its_inverse_is_one() {
        let mut matrix = [[0.1; CONSTANTS]; CONSTANTS];
        for (at, row) in matrix.iter_mut().enumerate() {
            row[at] = 2.0 + at as f64;
        }
        let wanted: [f64; CONSTANTS] = std::array::from_fn(|at| at as f64 - 3.0);
        let right: [f64; CONSTANTS] =
            std::array::from_fn(|row| (0..CONSTANTS).map(|column| matrix[row][column] * wanted[column]).sum());
        let found = solve(&matrix, &right).unwrap();
        let inverse = inverse(&matrix).unwrap();
        for at in 0..CONSTANTS {
            assert!((found[at] - wanted[at]).abs() < 1e-12);
            let by_inverse: f64 = (0..CONSTANTS).map(|column| inverse[at][column] * right[column]).sum();
            assert!((by_inverse - wanted[at]).abs() < 1e-10);
        }
        matrix[0][0] = -1.0;
        assert!(solve(&matrix, &right).is_none());
    }
}
