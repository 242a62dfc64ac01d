//! The sizes of a test: from `minbytes` to `maxbytes`, by a factor or by a step, as nccl-tests takes them.

use terms::Error;

use crate::Source;
use crate::fields::{MappedFields, items, text, whole};
use crate::tree::{ValueNode, shown};

/// The most sizes of a plan.
const MOST: usize = 256;

/// The sizes, and what was written.
pub(super) struct Sizes {
    pub(super) sizes: Vec<u64>,
    pub(super) said: String,
}

impl Sizes {
    /// A few of them.
    pub(super) fn shown(&self) -> String {
        match &self.sizes[..] {
            [first, second, .., last] => format!("{first}, {second} to {last} ({} sizes)", self.sizes.len()),
            [first, last] => format!("[{first}, {last}]"),
            sizes => sizes.iter().map(u64::to_string).collect(),
        }
    }
}

/// Whether an option of nccl-tests is the factor between sizes.
pub(super) fn is_factor(flag: &str) -> bool {
    matches!(flag, "--stepfactor" | "-f")
}

/// Reads the fields of sizes. An option of `extra_cmd_args` stands behind those of `cmd_args`, so it counts.
pub(super) fn read(source: &Source, args: &mut MappedFields<'_>, extra: &[(String, String)]) -> Result<Sizes, Error> {
    let line = args.line;
    let mut size = |name: &str, default: &str| -> Result<(u64, usize, String), Error> {
        let Some(node) = args.take(name) else { return Ok((bytes(default).unwrap_or(0), line, default.to_owned())) };
        let node = only(source, name, node)?;
        let word = text(source, name, node)?;
        let wrong = || {
            let what = format!("`{name}` must be a size such as 128 or 4G, not `{}`", shown(word));
            source.error(node.at, what)
        };
        Ok((bytes(word).ok_or_else(wrong)?, node.at, word.to_owned()))
    };
    let (low, low_at, low_said) = size("minbytes", "32M")?;
    let (high, high_at, high_said) = size("maxbytes", "32M")?;
    let (step, _, step_said) = size("stepbytes", "1M")?;
    let factor = args.take("stepfactor");
    let factor =
        factor.map(|node| whole(source, "stepfactor", only(source, "stepfactor", node)?, 1, 1 << 20)).transpose()?;
    let last = extra.iter().rev().find(|(flag, _)| is_factor(flag));
    let wrong = |word: &str| source.error(line, format!("`{}` is not a factor between sizes", shown(word)));
    let given = last.map(|(_, word)| word.trim().parse::<u64>().map_err(|_| wrong(word))).transpose()?;
    let factor = given.or(factor).filter(|factor| *factor > 1);
    if low == 0 {
        return Err(source.error(low_at, "`minbytes` is 0: nothing moves"));
    }
    if low > high {
        return Err(source.error(high_at, format!("`maxbytes` {high_said} is smaller than `minbytes` {low_said}")));
    }
    let next = |size: &u64| {
        let next = match factor {
            Some(factor) => size.checked_mul(factor),
            None if step > 0 => size.checked_add(step),
            // nccl-tests stops where a step changes nothing.
            None => None,
        };
        next.filter(|next| *next <= high)
    };
    let sizes: Vec<u64> = std::iter::successors(Some(low), next).take(MOST + 1).collect();
    if sizes.len() > MOST {
        let what = format!("{low_said} to {high_said} in steps of {step_said} are more than {MOST} sizes");
        return Err(source.error(high_at, what).hint("give `stepfactor = 2`"));
    }
    let by = factor.map_or_else(|| format!("stepbytes: {step_said}"), |factor| format!("stepfactor: {factor}"));
    Ok(Sizes { sizes, said: format!("minbytes: {low_said}, maxbytes: {high_said}, {by}") })
}

/// The value of a field that may be a list of one.
fn only<'n>(source: &Source, name: &str, node: &'n ValueNode) -> Result<&'n ValueNode, Error> {
    match items(source, name, node)? {
        [one] => Ok(one),
        _ => Err(source.error(node.at, format!("`{name}` takes one value here: several are several ranges of sizes"))),
    }
}

/// A size of nccl-tests: `128`, `32M`; units of 1024.
fn bytes(word: &str) -> Option<u64> {
    let digits = word.len() - word.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let shift = match &word[digits..] {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return None,
    };
    word[..digits].parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes < 1 << 50)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_nccl_tests() {
        for (word, expected) in [
            ("128", Some(128)),
            ("4G", Some(4 << 30)),
            ("32M", Some(32 << 20)),
            ("1k", Some(1024)),
            ("4GB", None),
            ("1.5M", None),
            ("1,5M", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(bytes(word), expected, "{word}");
        }
    }
}
