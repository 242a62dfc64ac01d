//! The samples of all ranks. Ranks of a simulated world mostly have equal ones, which are then held once: 16,384 ranks with
//! 10,000 samples each would not fit into memory.

use std::collections::HashMap;
use std::ops::Index;

/// `[rank][sample]` nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    rows: Vec<Vec<u64>>,
    /// The row of each rank.
    of: Vec<u32>,
}

impl From<Vec<Vec<u64>>> for Samples {
    fn from(rows: Vec<Vec<u64>>) -> Self {
        let of = (0..rows.len() as u32).collect();
        Self { rows, of }
    }
}

impl FromIterator<Vec<u64>> for Samples {
    fn from_iter<I: IntoIterator<Item = Vec<u64>>>(rows: I) -> Self {
        rows.into_iter().collect::<Vec<_>>().into()
    }
}

impl Index<usize> for Samples {
    type Output = Vec<u64>;

    fn index(&self, rank: usize) -> &Vec<u64> {
        &self.rows[self.of[rank] as usize]
    }
}

impl Samples {
    /// No samples yet, of so many ranks.
    pub fn of_ranks(ranks: u32) -> Self {
        Self { rows: if ranks > 0 { vec![Vec::new()] } else { Vec::new() }, of: vec![0; ranks as usize] }
    }

    /// Ranks.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there are no ranks.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The samples of a rank.
    pub fn get(&self, rank: usize) -> Option<&Vec<u64>> {
        self.rows.get(*self.of.get(rank)? as usize)
    }

    /// The samples of rank 0.
    pub fn first(&self) -> Option<&Vec<u64>> {
        self.get(0)
    }

    /// The samples of each rank, in rank order.
    pub fn iter(&self) -> impl Iterator<Item = &Vec<u64>> {
        self.of.iter().map(|row| &self.rows[*row as usize])
    }

    /// The rows that are held: one for all ranks with equal samples.
    pub fn rows(&self) -> &[Vec<u64>] {
        &self.rows
    }

    /// The row of each rank.
    pub fn row_of(&self) -> &[u32] {
        &self.of
    }

    /// Adds the same sample to every rank.
    pub fn push(&mut self, ns: u64) {
        self.rows.iter_mut().for_each(|row| row.push(ns));
    }

    /// Adds a sample to each rank.
    pub fn push_each(&mut self, ns: &[u64]) {
        // What the first rank of a row has is added to the row; a rank that differs gets a row of its own.
        let before = self.rows.len();
        let mut added: Vec<Option<u64>> = vec![None; before];
        let mut split: HashMap<(u32, u64), u32> = HashMap::new();
        for (row, ns) in self.of.iter_mut().zip(ns) {
            let first = *added[*row as usize].get_or_insert(*ns);
            if first != *ns {
                let rows = &mut self.rows;
                *row = *split.entry((*row, *ns)).or_insert_with(|| {
                    let mut apart = rows[*row as usize].clone();
                    apart.push(*ns);
                    rows.push(apart);
                    rows.len() as u32 - 1
                });
            }
        }
        self.rows.iter_mut().zip(added).for_each(|(row, ns)| row.extend(ns));
    }

    /// Adds later samples of the same ranks.
    pub fn append(&mut self, later: Self) {
        if self.is_empty() {
            *self = later;
        } else if self.of == later.of {
            self.rows.iter_mut().zip(later.rows).for_each(|(all, more)| all.extend(more));
        } else {
            let mut both: HashMap<(u32, u32), u32> = HashMap::new();
            let mut rows = Vec::new();
            for (row, other) in self.of.iter_mut().zip(&later.of) {
                *row = *both.entry((*row, *other)).or_insert_with(|| {
                    rows.push([self.rows[*row as usize].as_slice(), &later.rows[*other as usize]].concat());
                    rows.len() as u32 - 1
                });
            }
            self.rows = rows;
        }
    }

    /// Nanoseconds of each sample: the maximum over ranks.
    pub fn slowest(&self) -> Vec<f64> {
        let count = self.rows.iter().map(Vec::len).min().unwrap_or(0);
        (0..count).map(|i| self.rows.iter().map(|row| row[i]).max().unwrap_or(0) as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(samples: &Samples) -> Vec<Vec<u64>> {
        samples.iter().cloned().collect()
    }

    #[test]
    fn ranks_share_a_row_until_they_differ() {
        let mut samples = Samples::of_ranks(4);
        samples.push(5);
        samples.push_each(&[6, 6, 6, 6]);
        assert_eq!((samples.rows().len(), all(&samples)), (1, vec![vec![5, 6]; 4]));
        samples.push_each(&[7, 8, 7, 9]);
        samples.push_each(&[1, 1, 2, 2]);
        let expected = [[5, 6, 7, 1], [5, 6, 8, 1], [5, 6, 7, 2], [5, 6, 9, 2]];
        assert_eq!((samples.rows().len(), all(&samples)), (4, expected.map(Vec::from).to_vec()));
        assert_eq!(samples.slowest(), [5.0, 6.0, 9.0, 2.0]);
    }

    #[test]
    fn later_samples_of_other_groups_of_ranks_are_appended_rank_by_rank() {
        let (mut samples, mut later) = (Samples::of_ranks(3), Samples::of_ranks(3));
        samples.push_each(&[1, 1, 2]);
        later.push_each(&[3, 4, 4]);
        samples.append(later.clone());
        assert_eq!(all(&samples), [[1, 3], [1, 4], [2, 4]]);
        let mut none = Samples::default();
        none.append(later);
        assert_eq!((none.len(), none.rows().len(), none[2][0]), (3, 2, 4));
        let mut rows = Samples::from(vec![vec![1], vec![2]]);
        rows.append(Samples::from(vec![vec![3], vec![4]]));
        assert_eq!(all(&rows), [[1, 3], [2, 4]]);
    }
}
