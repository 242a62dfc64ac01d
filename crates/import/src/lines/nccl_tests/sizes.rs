//! Sizes of nccl-tests and of the OSU benchmarks in our spelling.

use terms::{Bytes, Error};

/// Most sizes of a list that a step makes.
const MOST: u64 = 256;

/// The sizes of these options, each by its short name and with its value.
pub(super) fn bytes(sizes: &[(&str, &str)]) -> Result<String, Error> {
    let value = |option: &str| sizes.iter().find(|(name, _)| *name == option).map(|(_, value)| *value);
    let refusal = |what: &str, hint: &str| Err(Error::new(what).hint(hint));
    // Where both are given, nccl-tests takes the factor.
    let step = value("-i").filter(|_| value("-f").is_none());
    match [value("-b"), value("-e"), value("-f").or(step), value("-m")] {
        [None, None, None, Some(range)] => {
            // Without a smallest size the OSU benchmarks begin at one element.
            let (least, most) = range.split_once(':').unwrap_or(("4", range));
            Ok(format!("{}..{}*2", size("-m", least)?, size("-m", most)?))
        }
        [_, _, _, Some(_)] => {
            refusal("`-m` is of the OSU benchmarks, `-b`, `-e` and `-f` are of nccl-tests", "use one of both")
        }
        [Some(begin), Some(end), None, None] if size("-b", begin)? != size("-e", end)? => {
            let hint = format!("add `-f 2`, or write `--bytes {}..{}*2`", size("-b", begin)?, size("-e", end)?);
            refusal("`-b` and `-e` need the factor between sizes", &hint)
        }
        [Some(begin), _, None, None] => Ok(size("-b", begin)?.to_string()),
        [Some(begin), Some(end), Some(by), None] => match step {
            Some(step) => list(size("-b", begin)?, size("-e", end)?, size("-i", step)?),
            None => Ok(format!("{}..{}*{by}", size("-b", begin)?, size("-e", end)?)),
        },
        _ => refusal(
            "`-b` is the smallest size, `-e` the largest, `-f` the factor between: one is missing",
            "-b 8 -e 128M -f 2",
        ),
    }
}

/// Sizes with a fixed step between them.
fn list(begin: Bytes, end: Bytes, step: Bytes) -> Result<String, Error> {
    let count = end.0.saturating_sub(begin.0).checked_div(step.0).map(|steps| steps + 1);
    let hint = format!("a factor makes fewer: --bytes {begin}..{end}*2");
    match count {
        None => Err(Error::new("`-i 0` cannot be a step between sizes").hint(hint)),
        Some(count) if count > MOST => {
            let what = format!("`-i {step}` is a list of {count} sizes; at most {MOST} are taken");
            Err(Error::new(what).hint(hint))
        }
        Some(count) => {
            let sizes = (0..count).map(|index| Bytes(begin.0 + index * step.0).to_string());
            Ok(sizes.collect::<Vec<_>>().join(","))
        }
    }
}

/// A size as these programs read it.
fn size(option: &str, text: &str) -> Result<Bytes, Error> {
    let binary = text.ends_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
    let whole = if binary { format!("{text}iB") } else { text.to_owned() };
    let parsed = whole.parse::<Bytes>();
    parsed.map_err(|error| Error::new(format!("`{option} {text}`: {error}")).hint("-b 8 -e 128M -f 2"))
}
