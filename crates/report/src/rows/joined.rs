//! One table for cases of a benchmark that have hardly two rows in common under one heading: a row says what is its own.

use std::collections::{HashMap, HashSet};

use record::{CaseLine, Declared, Plan};
use terms::Status;

use super::heading::{heading, parts, quiet_parts};

/// More cases than a screen has rows stand under headings.
const MOST: usize = 60;
/// With so many cases under a heading on average, headings are easier to read than rows that repeat them.
const ROWS: usize = 4;

/// The benchmarks of a plan whose cases stand in one table. By the plan, so that a table keeps its form while rows come.
pub(super) fn benchmarks(plan: &Plan, declared: &[Declared]) -> HashSet<String> {
    if plan.cases.len() > MOST {
        return HashSet::new();
    }
    let mut found: HashMap<&str, (usize, HashSet<String>)> = HashMap::new();
    for case in &plan.cases {
        let of = declared.iter().find(|declared| declared.name == case.benchmark);
        let (cases, headings) = found.entry(&case.benchmark).or_default();
        *cases += 1;
        headings.insert(heading(&CaseLine::unmeasured(case, Status::Ok, ""), of));
    }
    let is_joined = |(cases, headings): &(usize, HashSet<String>)| headings.len() > 1 && *cases < ROWS * headings.len();
    found.into_iter().filter(|(_, of)| is_joined(of)).map(|(name, _)| name.to_owned()).collect()
}

/// What stands above the rows, and what each has of its own.
pub(super) struct JoinedWords {
    pub(super) heading: String,
    pub(super) labels: Vec<String>,
}

/// Divides the words of headings between the heading of one table and its rows. What all rows have stands above them. So does a
/// form that most of them have (registered buffers), where a row that differs says so; but not what they are (the operation, what
/// moves the bytes), which a row would then seem to have.
pub(super) fn words(lines: &[&CaseLine], declared: Option<&Declared>) -> JoinedWords {
    let quiet = quiet_parts(lines, declared);
    let all = lines.iter().zip(quiet).map(|(line, quiet)| parts(line, declared).into_iter().chain(quiet).collect());
    let all: Vec<Vec<String>> = all.collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    let mut order: Vec<&str> = Vec::new();
    for part in all.iter().flatten() {
        let count = times.entry(part).or_default();
        *count += 1;
        if *count == 1 {
            order.push(part);
        }
    }
    let is_what = |part: &str| all.iter().any(|parts| parts.iter().take(WHAT).any(|other| other == part));
    let is_above = |part: &str| times[part] == all.len() || !is_what(part) && 2 * times[part] > all.len();
    let above: Vec<&str> = order.iter().copied().filter(|part| is_above(part)).collect();
    let has_exceptions = above.iter().any(|part| times[part] < all.len());
    let end = if has_exceptions { ", unless a row says otherwise" } else { "" };
    let label = |parts: &Vec<String>| -> String {
        let own: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !is_above(part)).collect();
        own.join(", ")
    };
    JoinedWords { heading: format!("{}{end}", above.join("  ")), labels: all.iter().map(label).collect() }
}

/// The benchmark, what of it, what moves the bytes.
const WHAT: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(flags: &[(&str, &str)]) -> (Plan, Vec<CaseLine>, Declared) {
        let about = benchmarks::benchmark("collective").unwrap().about();
        let plan = record::plan::from_flags(about, flags, &[]).unwrap();
        let lines = plan.cases.iter().map(|case| CaseLine::unmeasured(case, Status::Ok, "")).collect();
        (plan, lines, Declared::of(about))
    }

    #[test]
    fn few_rows_under_many_headings_are_one_table() {
        let (plan, lines, declared) = lines(&[("op", "all_reduce,broadcast,reduce,barrier"), ("bytes", "1KiB,1MiB")]);
        assert!(super::benchmarks(&plan, std::slice::from_ref(&declared)).contains("collective"));
        let words = words(&lines.iter().collect::<Vec<_>>(), Some(&declared));
        let above = "collective  shm  in place  registered buffers  cache-warm  f32  sum, unless a row says otherwise";
        assert_eq!(words.heading, above);
        let rows = ["all_reduce", "all_reduce", "broadcast", "broadcast", "reduce", "reduce", "barrier"];
        assert_eq!(words.labels, rows);
    }

    #[test]
    fn a_row_says_what_most_others_have_not() {
        let (_, lines, declared) = lines(&[("op", "ping_pong"), ("ranks", "3"), ("peer", "1,2"), ("bytes", "1KiB")]);
        let words = words(&lines.iter().collect::<Vec<_>>(), Some(&declared));
        assert!(words.heading.starts_with("collective  ping_pong  shm  ") && !words.heading.contains("else"));
        assert_eq!(words.labels, ["", "peer 2"]);
    }

    #[test]
    fn what_moves_the_bytes_is_said_of_each_row_where_rows_differ() {
        let (_, lines, declared) = lines(&[("op", "all_reduce"), ("backend", "shm,shm,mpi"), ("bytes", "1KiB,2KiB")]);
        let words = words(&lines.iter().collect::<Vec<_>>(), Some(&declared));
        assert!(!words.heading.contains("shm") && words.labels[0] == "shm", "{} {:?}", words.heading, words.labels);
    }

    #[test]
    fn rows_that_differ_in_their_seed_alone_say_it() {
        let (_, lines, declared) = lines(&[("op", "all_reduce,broadcast"), ("bytes", "1KiB"), ("seed", "1,2")]);
        let words = words(&lines.iter().collect::<Vec<_>>(), Some(&declared));
        assert_eq!(
            words.labels,
            ["all_reduce, sum, seed 1", "all_reduce, sum, seed 2", "broadcast, seed 1", "broadcast, seed 2"]
        );
        assert!(!words.heading.contains("seed"), "{}", words.heading);
    }

    #[test]
    fn many_rows_under_a_heading_stay_there() {
        let sizes = [("op", "all_reduce,broadcast"), ("bytes", "1KiB,2KiB,4KiB,8KiB")];
        let (plan, _, declared) = lines(&sizes);
        assert!(super::benchmarks(&plan, &[declared]).is_empty());
    }
}
