//! Tokens that go to experts and come back: how many, from whom to whom, and where they lie.

use device::Slice;

use super::site::Site;
use super::task::Task;

/// The part of a number that a chunk has: where it begins, and how long it is.
pub(super) fn chunk_of(total: usize, chunk: usize, chunks: usize) -> (usize, usize) {
    let until = |chunk: usize| total * chunk / chunks;
    (until(chunk), until(chunk + 1) - until(chunk))
}

/// Tokens of a chunk that each rank sends to each expert: the same for all ranks.
pub(super) fn counts(task: &Task, chunk: usize, chunks: usize) -> Vec<usize> {
    (0..task.ranks).map(|expert| chunk_of(task.tokens_of(expert), chunk, chunks).1).collect()
}

/// Elements from each rank to each expert.
pub(super) fn there(tokens: &[usize], width: usize) -> Vec<u64> {
    (0..tokens.len()).flat_map(|_| tokens.iter().map(|tokens| (tokens * width) as u64)).collect()
}

/// Elements from each expert to each rank.
pub(super) fn back(tokens: &[usize], width: usize) -> Vec<u64> {
    tokens.iter().flat_map(|own| tokens.iter().map(move |_| (own * width) as u64)).collect()
}

/// Copies the tokens of a chunk between their places among all of a rank's tokens, sorted by expert, and a buffer that holds
/// only the chunk. `packs`: into the buffer.
pub(super) fn pack(
    site: &Site,
    tokens: &Slice,
    buffer: &Slice,
    width: usize,
    (chunk, chunks): (usize, usize),
    packs: bool,
) {
    let task = &site.task;
    let mut packed = 0;
    for expert in 0..task.ranks {
        let (begin, len) = chunk_of(task.tokens_of(expert), chunk, chunks);
        let sorted = site.part(tokens, (task.tokens_begin(expert) + begin) * width, len * width);
        let dense = site.part(buffer, packed * width, len * width);
        packed += len;
        let (from, to) = if packs { (&sorted, &dense) } else { (&dense, &sorted) };
        // SAFETY: both are this rank's own, of equal length, in different buffers, and no operation uses them.
        unsafe { std::ptr::copy_nonoverlapping(from.ptr(), to.ptr(), from.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_tokens_and_come_back_as_they_went() {
        for (total, chunks) in [(10, 4), (3, 8), (0, 2), (64, 4)] {
            let all: usize = (0..chunks).map(|chunk| chunk_of(total, chunk, chunks).1).sum();
            assert_eq!(all, total);
        }
        let (there, back) = (there(&[3, 1], 2), back(&[3, 1], 5));
        assert_eq!(there, [6, 2, 6, 2]);
        assert_eq!(back, [15, 15, 5, 5]);
    }
}
