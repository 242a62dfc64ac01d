//! Pseudo-random 64-bit numbers whose sequence never changes: seeds stand in records, and must give the same data in every version.

/// What SplitMix64 adds to its state for each number: 2^64 over the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection of 64 bits in which each bit of the output depends on
/// all bits of the input.
#[inline]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The number that SplitMix64 gives from this state, which the generator then raises by its increment.
#[inline]
pub const fn splitmix64(state: u64) -> u64 {
    mix(state.wrapping_add(GOLDEN))
}

/// The next number of SplitMix64, whose state moves on.
#[inline]
pub const fn next_splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    mix(*state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first numbers of its reference implementation from the seed 1234567.
        let expected = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        let mut state = 1_234_567;
        assert_eq!([(); 3].map(|()| next_splitmix64(&mut state)), expected);
        assert_eq!(splitmix64(1_234_567), expected[0]);
    }
}
