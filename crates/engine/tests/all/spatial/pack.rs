//! Copies of weights for direct convolution.

use std::arch::x86_64::__m512;

use engine::internals::direct::{LANES, serves, transposed};

#[test]
fn sixteen_rows_become_columns() {
    if !serves(4) {
        return;
    }
    type Rows = [[f32; LANES]; LANES];
    let number = |row: usize, column: usize| (row * LANES + column) as f32;
    let rows: Rows = std::array::from_fn(|row| std::array::from_fn(|column| number(row, column)));
    // SAFETY: AVX-512, as asked; an array of 16 f32 and a vector have the same bits.
    let columns = unsafe {
        let rows = std::mem::transmute::<Rows, [__m512; LANES]>(rows);
        std::mem::transmute::<[__m512; LANES], Rows>(transposed(rows))
    };
    for (column, numbers) in columns.iter().enumerate() {
        assert_eq!(*numbers, std::array::from_fn(|row| number(row, column)), "column {column}");
    }
}
