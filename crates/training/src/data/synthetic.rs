//! Made-up samples: numbers by counter, so that any of them can be had without those before it.

use model::Input;
use terms::mix;

use super::Samples;

/// SplitMix64's increment.
const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

/// See the module's documentation.
pub(super) struct Synthetic {
    input: Input,
    seed: u64,
}

impl Synthetic {
    pub(super) fn new(input: Input, seed: u64) -> Self {
        Self { input, seed }
    }

    /// Word `place` of sample `index`.
    fn word(&self, index: u64, place: u64) -> u64 {
        let key = mix(index.wrapping_mul(INCREMENT) ^ mix(self.seed.wrapping_add(INCREMENT)));
        mix(key.wrapping_add((place + 1).wrapping_mul(INCREMENT)))
    }

    /// A number below `bound`, all equally likely but for a share of 2^-32.
    fn below(&self, index: u64, place: u64, bound: usize) -> i32 {
        (((self.word(index, place) >> 32) * bound as u64) >> 32) as i32
    }
}

impl Samples for Synthetic {
    fn tokens(&self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String> {
        let Input::Tokens { vocabulary, next, .. } = self.input else { return Err("the model takes no tokens".into()) };
        for (place, token) in tokens.iter_mut().enumerate() {
            *token = self.below(index, place as u64, vocabulary);
        }
        let ahead = u64::from(next);
        for (place, target) in targets.iter_mut().enumerate() {
            *target = self.below(index, place as u64 + ahead, vocabulary);
        }
        Ok(())
    }

    /// Numbers between -1 and 1; the class is any.
    fn numbers(&self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String> {
        let (Input::Image { classes, .. } | Input::Vector { classes, .. }) = self.input else {
            return Err("the model takes no numbers".into());
        };
        for (place, number) in numbers.iter_mut().enumerate() {
            // 24 bits, as many as the type holds.
            *number = (self.word(index, place as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0;
        }
        *class = self.below(index, u64::MAX - 1, classes);
        Ok(())
    }
}
