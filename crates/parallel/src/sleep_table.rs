//! How long passes of blocks take where nothing is computed, as a text: a line a block, with its name and the times of its forward
//! and its backward pass.
//!
//! ```text
//! # block      forward  backward
//! embedding    0.2ms    0.3ms
//! h            1.5ms    3ms       # h.0, h.1, ...: layers of GPT-2
//! h.3          2ms      4ms       # but for this one
//! head         1ms      2ms
//! optimizer    0.5ms
//! ```

use terms::Seconds;

use crate::recipe::Recipe;

/// Most lines: more than any model has blocks.
const MOST: usize = 100_000;
/// A longer sleep of one pass is a mistake in a unit.
const LONGEST_S: f64 = 3600.0;
/// The line of the update.
const OPTIMIZER: &str = "optimizer";
/// The line of each block that has no other.
const ANY: &str = "*";

/// Seconds that passes and updates take. See the module's documentation for its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SleepTable {
    /// Name, forward pass, backward pass.
    blocks: Vec<(String, [f64; 2])>,
    optimizer_s: f64,
}

impl SleepTable {
    /// Reads a table.
    ///
    /// # Errors
    /// In words, with the number of the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        let mut has_optimizer = false;
        for (number, line) in text.lines().enumerate() {
            let refused = |why: String| format!("line {}: {why}", number + 1);
            let bare = line.split('#').next().unwrap_or("");
            let words: Vec<&str> = bare.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
            let times = words.iter().skip(1).map(|word| seconds(word)).collect::<Result<Vec<f64>, String>>();
            match (words.first(), times.map_err(&refused)?.as_slice()) {
                (None, _) => {}
                (Some(&OPTIMIZER), [update]) if !has_optimizer => {
                    has_optimizer = true;
                    table.optimizer_s = *update;
                }
                (Some(&OPTIMIZER), [_]) => return Err(refused("a second line of the optimizer".to_owned())),
                (Some(name), [forward, backward]) if *name != OPTIMIZER => {
                    table.add(name, [*forward, *backward]).map_err(refused)?
                }
                (Some(name), times) => {
                    let wanted = if *name == OPTIMIZER { "one time" } else { "a time forward and one backward" };
                    return Err(refused(format!("`{}` has {} times, not {wanted}", shown(name), times.len())));
                }
            }
        }
        if table.blocks.is_empty() { Err("it names no block".to_owned()) } else { Ok(table) }
    }

    fn add(&mut self, name: &str, passes: [f64; 2]) -> Result<(), String> {
        if self.blocks.iter().any(|(known, _)| known == name) {
            return Err(format!("a second line of `{}`", shown(name)));
        }
        if self.blocks.len() >= MOST {
            return Err(format!("more than {MOST} blocks"));
        }
        self.blocks.push((name.to_owned(), passes));
        Ok(())
    }

    /// Seconds of the update.
    pub fn optimizer_s(&self) -> f64 {
        self.optimizer_s
    }

    /// Seconds of the forward and the backward pass of each block of the recipe's model, in their order. A backward pass that has
    /// its forward pass run again takes as long as both.
    ///
    /// # Errors
    /// A block that no line is of, by name.
    pub fn passes(&self, recipe: &Recipe) -> Result<Vec<[f64; 2]>, String> {
        let last = recipe.model.blocks.len().saturating_sub(1);
        let pass = |(at, block): (usize, &model::Block)| {
            let found =
                self.of_block(&block.name).ok_or_else(|| format!("no line is of the block `{}`", block.name))?;
            let [forward, backward] = found;
            let again = if recipe.recompute && at != last { forward } else { 0.0 };
            Ok([forward, backward + again])
        };
        recipe.model.blocks.iter().enumerate().map(pass).collect()
    }

    /// The line of this name, or of the name without its number, or of any block.
    fn of_block(&self, name: &str) -> Option<[f64; 2]> {
        let of = |name: &str| self.blocks.iter().find(|(known, _)| known == name).map(|(_, passes)| *passes);
        let kind = name.split('.').next().unwrap_or(name);
        of(name).or_else(|| of(kind)).or_else(|| of(ANY))
    }
}

fn seconds(word: &str) -> Result<f64, String> {
    let Seconds(seconds) = word.parse::<Seconds>().map_err(|error| error.to_string())?;
    match seconds.is_finite() && seconds <= LONGEST_S {
        true => Ok(seconds),
        false => Err(format!("`{}` is longer than an hour", shown(word))),
    }
}

fn shown(word: &str) -> String {
    word.chars().take(40).collect::<String>().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::scaffold::recipe;

    const TEXT: &str =
        "# a comment\nembedding 0.2ms 0.3ms\nh, 1.5ms, 3ms # each\nh.1 2ms 4ms\n\nhead 1ms 2ms\noptimizer 0.5ms\n";

    #[test]
    fn a_block_takes_the_line_that_is_nearest_to_its_name() {
        let table = SleepTable::parse(TEXT).unwrap();
        let model = model::model("gpt2-mini", &[("layers".to_owned(), 3.0)]).unwrap();
        let mut recipe = recipe(model, 1, 1);
        let near = |found: Vec<[f64; 2]>, wanted: [[f64; 2]; 5]| {
            let same = found.iter().flatten().zip(wanted.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(same && found.len() == wanted.len(), "{found:?}");
        };
        let (layer, second) = ([1.5e-3, 3e-3], [2e-3, 4e-3]);
        near(table.passes(&recipe).unwrap(), [[2e-4, 3e-4], layer, second, layer, [1e-3, 2e-3]]);
        recipe.recompute = true;
        let again = [1.5e-3, 4.5e-3];
        near(table.passes(&recipe).unwrap(), [[2e-4, 5e-4], again, [2e-3, 6e-3], again, [1e-3, 2e-3]]);
        assert_eq!(table.optimizer_s(), 5e-4);
        let missing = SleepTable::parse("embedding 1ms 1ms").unwrap().passes(&recipe).unwrap_err();
        assert!(missing.contains("`h.0`"), "{missing}");
        let any = SleepTable::parse("* 1ms 2ms").unwrap().passes(&recipe).unwrap();
        assert_eq!((any.len(), any[4]), (5, [1e-3, 2e-3]));
    }

    #[test]
    fn tables_are_hostile() {
        for (text, said) in [
            ("", "names no block"),
            ("optimizer 1ms", "names no block"),
            ("head 1ms", "line 1: `head` has 1 times"),
            ("\nhead 1ms 2ms 3ms", "line 2: `head` has 3 times"),
            ("head 1ms -2ms", "line 1"),
            ("head 1ms NaN", "line 1"),
            ("head 1ms 2h", "longer than an hour"),
            ("head 1 2\nhead 1 2", "second line of `head`"),
            ("* 1 2\noptimizer 1\noptimizer 2", "second line of the optimizer"),
            ("optimizer 1 2", "not one time"),
        ] {
            let why = SleepTable::parse(text).unwrap_err();
            assert!(why.contains(said), "{text:?}: {why}");
        }
    }
}
