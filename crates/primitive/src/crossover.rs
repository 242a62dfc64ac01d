//! From which size on overlap pays, in words. Pure: over points of one line of sizes, and over the lines of one table.

use ::view::number::{factor, percent, three_digits};
use ::view::study::Estimate;

/// The best implementation that overlaps, at one size.
pub(super) struct Point {
    /// The size that varies along the line.
    pub(super) at: u64,
    pub(super) speedup: Estimate,
    /// Time of the communication over that of the product; None where they were not measured alone.
    pub(super) ratio: Option<f64>,
    /// Whether there is anything to overlap.
    pub(super) worth: bool,
}

/// What a line of sizes says. Only sizes with something to overlap are judged (definitions: docs/how-to/primitives.md).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SizesVerdict {
    /// At all that are judged.
    Everywhere(u64, u64),
    /// At this one and all larger.
    From(u64),
    /// At this one and all smaller.
    UpTo(u64),
    /// At these.
    At(Vec<u64>),
    Nowhere,
    /// No interval is on one side of 1.
    Unclear,
    /// No size has enough to overlap: one of product and communication is short beside the other.
    Nothing,
}

/// Judges a line, ordered by size.
pub(super) fn verdict(line: &[Point]) -> SizesVerdict {
    let judged: Vec<&Point> = line.iter().filter(|point| point.worth).collect();
    let pays: Vec<bool> = judged.iter().map(|point| point.speedup.exceeds(1.0)).collect();
    let number = pays.iter().filter(|pays| **pays).count();
    let (Some(first), Some(last)) = (judged.first(), judged.last()) else { return SizesVerdict::Nothing };
    match number {
        0 if judged.iter().all(|point| point.speedup.is_below(1.0)) => SizesVerdict::Nowhere,
        0 => SizesVerdict::Unclear,
        _ if number == judged.len() => SizesVerdict::Everywhere(first.at, last.at),
        _ if pays[pays.len() - number..].iter().all(|pays| *pays) => {
            SizesVerdict::From(judged[judged.len() - number].at)
        }
        _ if pays[..number].iter().all(|pays| *pays) => SizesVerdict::UpTo(judged[number - 1].at),
        _ => SizesVerdict::At(judged.iter().zip(&pays).filter(|(_, pays)| **pays).map(|(point, _)| point.at).collect()),
    }
}

impl SizesVerdict {
    /// The verdict as what follows a subject, where `along` is the size that varies.
    fn words(&self, along: &str) -> String {
        match self {
            Self::Everywhere(low, high) if low == high => format!("overlap pays at {along} = {low}"),
            Self::Everywhere(low, high) => format!("overlap pays at each {along} from {low} to {high}"),
            Self::From(from) => format!("overlap pays from {along} = {from} up"),
            Self::UpTo(last) => format!("overlap pays up to {along} = {last}"),
            Self::At(list) => format!("overlap pays at {along} = {}", listed(list)),
            Self::Nowhere => "overlap does not pay".to_owned(),
            Self::Unclear => "it is not clear whether overlap pays".to_owned(),
            Self::Nothing => "there is little to overlap".to_owned(),
        }
    }
}

/// `1, 2 and 3`.
fn listed(list: &[u64]) -> String {
    let words: Vec<String> = list.iter().map(u64::to_string).collect();
    match words.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => words.concat(),
    }
}

/// A line of sizes: the size that is fixed, and what stands along it.
pub(super) struct SizeLine {
    pub(super) fixed: u64,
    pub(super) points: Vec<Point>,
}

/// What the lines of a table say together, or None without a line: `fixed` and `along` name the two sizes. The second is
/// whether anything was there to overlap.
pub(super) fn sentence(subject: &str, fixed: &str, along: &str, lines: &[SizeLine]) -> Option<(String, bool)> {
    let mut groups: Vec<(SizesVerdict, Vec<u64>)> = Vec::new();
    for line in lines.iter().filter(|line| !line.points.is_empty()) {
        let verdict = verdict(&line.points);
        match groups.iter_mut().find(|(known, _)| *known == verdict) {
            Some((_, sizes)) => sizes.push(line.fixed),
            None => groups.push((verdict, vec![line.fixed])),
        }
    }
    let worth = groups.iter().any(|(verdict, _)| *verdict != SizesVerdict::Nothing);
    // What pays first, what has nothing to overlap last.
    groups.sort();
    let clauses: Vec<String> = groups
        .iter()
        .map(|(verdict, sizes)| format!("with {fixed} = {} {}", listed(sizes), verdict.words(along)))
        .collect();
    if clauses.is_empty() {
        return None;
    }
    let ratios =
        lines.iter().flat_map(|line| &line.points).filter(|point| !point.worth).filter_map(|point| point.ratio);
    let nothing = match range(ratios) {
        Some(range) if worth => {
            format!(" Elsewhere there is little to overlap: communication takes {range}.")
        }
        Some(range) => format!(" Communication takes {range}."),
        None => String::new(),
    };
    Some((format!("{subject}: {}.{nothing}", clauses.join("; ")), worth))
}

/// Times of communications over those of their products: `2.0% to 10% of the time of the product`, or one number.
fn range(values: impl Iterator<Item = f64>) -> Option<String> {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return None;
    }
    let (write, of): (fn(f64) -> String, _) = match high < 1.0 {
        true => (percent, "of the time of the product"),
        false => (three_digits, "times as long as the product"),
    };
    let (low, high) = (write(low), write(high));
    Some(if low == high { format!("{low} {of}") } else { format!("{low} to {high} {of}") })
}

/// The most that is gained where there is something to overlap: by whom and at which sizes.
pub(super) fn most(name: &str, m: u64, n: u64, point: &Point) -> String {
    let gained = format!("{}{}", factor(point.speedup.mid), point.speedup.range(factor));
    let ratio = range(point.ratio.into_iter());
    let ratio = ratio.map_or_else(String::new, |ratio| format!(", where communication takes {ratio}"));
    format!(" The largest speedup is {gained} with {name} at m = {m}, n = {n}{ratio}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point with an interval of a tenth to both sides.
    fn point(at: u64, speedup: f64, ratio: f64) -> Point {
        let speedup = Estimate::new(speedup, Some([speedup - 0.1, speedup + 0.1]));
        Point { at, speedup, ratio: Some(ratio), worth: (0.3..=3.0).contains(&ratio) }
    }

    fn verdict_of(points: &[(u64, f64, f64)]) -> SizesVerdict {
        verdict(&points.iter().map(|(at, speedup, ratio)| point(*at, *speedup, *ratio)).collect::<Vec<_>>())
    }

    #[test]
    fn only_sizes_with_something_to_overlap_are_judged() {
        // The ratio falls with the columns: the largest has nothing to overlap, and says nothing about the others.
        assert_eq!(
            verdict_of(&[(8, 2.29, 0.445), (32, 0.8, 0.266), (512, 1.0, 0.012)]),
            SizesVerdict::Everywhere(8, 8)
        );
        assert_eq!(verdict_of(&[(8, 2.0, 0.1), (32, 2.0, 0.01)]), SizesVerdict::Nothing);
        assert_eq!(verdict_of(&[(8, 0.8, 1.0), (32, 1.5, 1.0), (64, 1.4, 1.0)]), SizesVerdict::From(32));
        assert_eq!(verdict_of(&[(8, 1.8, 1.0), (32, 1.5, 1.0), (64, 1.05, 1.0)]), SizesVerdict::UpTo(32));
        assert_eq!(verdict_of(&[(8, 1.8, 1.0), (32, 0.5, 1.0), (64, 1.5, 1.0)]), SizesVerdict::At(vec![8, 64]));
        assert_eq!(verdict_of(&[(8, 0.8, 1.0), (32, 0.7, 1.0)]), SizesVerdict::Nowhere);
        assert_eq!(verdict_of(&[(8, 0.8, 1.0), (32, 1.05, 1.0)]), SizesVerdict::Unclear);
        assert_eq!(verdict_of(&[]), SizesVerdict::Nothing);
    }

    #[test]
    fn lines_that_say_the_same_are_told_once() {
        let line = |fixed: u64, points: &[(u64, f64, f64)]| SizeLine {
            fixed,
            points: points.iter().map(|(at, speedup, ratio)| point(*at, *speedup, *ratio)).collect(),
        };
        let lines = [
            line(1024, &[(16, 0.8, 1.0), (64, 1.5, 1.0)]),
            line(4096, &[(16, 1.0, 0.1), (64, 1.0, 0.02)]),
            line(8192, &[(16, 0.7, 1.0), (64, 1.4, 1.0)]),
        ];
        let pays = sentence("AG_before", "m", "n", &lines).unwrap();
        let words = "AG_before: with m = 1024 and 8192 overlap pays from n = 64 up; with m = 4096 there is little to \
                     overlap. Elsewhere there is little to overlap: communication takes 2.0% to 10% of the time of the \
                     product.";
        assert_eq!(pays, (words.to_owned(), true));
        let (text, worth) = sentence("AG_after", "m", "n", &lines[1..2]).unwrap();
        assert!(!worth);
        assert_eq!(
            text,
            "AG_after: with m = 4096 there is little to overlap. Communication takes 2.0% to 10% of the time of the \
             product."
        );
        assert_eq!(sentence("AG_after", "m", "n", &[]), None);
    }
}
