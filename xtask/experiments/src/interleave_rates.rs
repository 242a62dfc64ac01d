//! How often `rankmark compare --interleave` is wrong and how often it finds a change, on this machine: tries with equal sides,
//! then tries with a planted delay of the smallest change that equal sides printed.
//!
//! Not part of CI: it takes a while and measures the machine. Everything is bounded: each try by the time of its cases.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use xtask::runs::{COMPARED, Given, cleared, head, printed, program, said};

/// Tries with equal sides.
const TRIES: usize = 40;
/// Seconds of a case in a try.
const SECONDS: f64 = 60.0;

/// The cases of a try: operation and bytes.
const CASES: [(&str, &str); 4] =
    [("all_reduce", "64KiB"), ("all_reduce", "1MiB"), ("all_gather", "1MiB"), ("broadcast", "256KiB")];

/// What was asked for.
struct Options {
    tries: usize,
    planted: usize,
    seconds: f64,
    /// None: it is built first.
    program: Option<PathBuf>,
    folder: PathBuf,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, String> {
        let given = Given::read(words, "--tries N, --planted N, --seconds S, --program PATH, --records DIR")?;
        let seconds = given.text("--seconds").map_or(Some(SECONDS), |text| text.parse().ok());
        let seconds = seconds.filter(|seconds| *seconds > 0.0 && *seconds < 3600.0);
        let options = Self {
            tries: given.number("--tries", 0, TRIES)?,
            planted: given.number("--planted", 0, 0)?,
            seconds: seconds.ok_or("--seconds takes the seconds of a case, below 3600")?,
            program: given.path("--program"),
            folder: given.records("interleave-rates"),
        };
        if options.planted > 0 && options.tries == 0 {
            return Err("--planted needs --tries: they print the smallest change".to_owned());
        }
        Ok(options)
    }
}

/// One case of one try.
#[derive(Clone, Debug)]
struct CaseOutcome {
    verdict: String,
    ratio: f64,
    half_width: f64,
    smallest: f64,
    pairs: usize,
    time_s: f64,
}

/// Makes the tries and prints their tables. False where a try failed.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let options = Options::read(words)?;
    Ok(printed(rates(root, &options)))
}

fn rates(root: &Path, options: &Options) -> Result<String, String> {
    let program = program(root, options.program.as_deref())?;
    std::fs::create_dir_all(&options.folder).map_err(|error| format!("{}: {error}", options.folder.display()))?;
    let equal = tries(&program, options, ("equal", options.tries), None)?;
    let alarms = equal.iter().filter(|one| one.iter().any(|case| is_alarm(&case.verdict))).count();
    let mut text = table("equal sides", &equal);
    text += &format!("tries in which any case says worse or better: {alarms} of {}\n\n", equal.len());
    if options.planted > 0 {
        let delays: Vec<f64> = (0..CASES.len()).map(|case| delay_s(&equal, case)).collect();
        let planted = tries(&program, options, ("planted", options.planted), Some(&delays))?;
        let found: usize = planted.iter().flatten().filter(|case| case.verdict == "worse").count();
        text += &table("the smallest change planted in B", &planted);
        text += &format!("planted changes found: {found} of {}\n", planted.len() * CASES.len());
    }
    Ok(text)
}

fn is_alarm(verdict: &str) -> bool {
    ["worse", "better"].contains(&verdict)
}

/// The delay of each call that makes the smallest change that equal sides printed: medians over the tries.
fn delay_s(equal: &[Vec<CaseOutcome>], case: usize) -> f64 {
    let of =
        |tell: fn(&CaseOutcome) -> f64| stats::median(&equal.iter().map(|one| tell(&one[case])).collect::<Vec<_>>());
    of(|case| case.smallest) * of(|case| case.time_s)
}

/// A plan of all cases, each with its delay where there is one.
fn plan(delays: Option<&[f64]>) -> String {
    let case = |(at, (op, bytes)): (usize, &(&str, &str))| {
        let delay = delays.map_or(String::new(), |delays| {
            format!(", inject: 'delay:rank=0,time={:.0}ns'", (delays[at] * 1e9).max(1.0))
        });
        format!("  - {{benchmark: collective, op: {op}, bytes: {bytes}, ranks: 2{delay}}}\n")
    };
    format!("experiment: rates\ncases:\n{}", CASES.iter().enumerate().map(case).collect::<String>())
}

fn tries(
    program: &Path,
    options: &Options,
    (name, count): (&str, usize),
    delays: Option<&[f64]>,
) -> Result<Vec<Vec<CaseOutcome>>, String> {
    let plans = [("a", plan(None)), ("b", plan(delays))]
        .map(|(side, text)| (options.folder.join(format!("{name}-{side}.yaml")), text));
    for (path, text) in &plans {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mut all = Vec::new();
    for number in 0..count {
        let record = options.folder.join(format!("{name}-{number:02}"));
        let mut command = Command::new(program);
        command.args(["compare", "--interleave"]).args(plans.iter().map(|(path, _)| path));
        command.args(["--json", "--quiet", "--max-seconds", &format!("{}s", options.seconds), "--output-dir"]);
        let lines = said(command.arg(cleared(&record)?), &COMPARED)?;
        let cases = read(&lines).map_err(|why| format!("try {number}: {why}"))?;
        let verdicts: Vec<&str> = cases.iter().map(|case| case.verdict.as_str()).collect();
        eprintln!("{name} {} of {count}: {}", number + 1, verdicts.join(", "));
        all.push(cases);
    }
    Ok(all)
}

/// The cases of one try, in the order of [`CASES`].
fn read(lines: &[Value]) -> Result<Vec<CaseOutcome>, String> {
    let find = |(op, bytes): &(&str, &str)| {
        let is = |line: &&Value| line["parameters"]["op"] == *op && line["parameters"]["bytes"] == in_bytes(bytes);
        let line = lines.iter().find(is).ok_or_else(|| format!("{op} {bytes} is missing"))?;
        if line["status"] != "ok" {
            return Err(format!("{op} {bytes}: {}", line["reason"]));
        }
        let number = |value: &Value| value.as_f64().ok_or_else(|| format!("{op} {bytes} has no ratio: {line}"));
        let ends = &line["ratio_ci95"];
        Ok(CaseOutcome {
            verdict: line["verdict"].as_str().unwrap_or_default().to_owned(),
            ratio: number(&line["ratio"])?,
            half_width: 0.5 * (number(&ends[1])? - number(&ends[0])?),
            smallest: number(&line["smallest_change"])?,
            pairs: line["log_ratios"].as_array().map_or(0, Vec::len),
            time_s: number(&line["time_s"][0])?,
        })
    };
    CASES.iter().map(find).collect()
}

fn in_bytes(text: &str) -> u64 {
    let number = |unit: &str| text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    number("KiB").map(|n| n << 10).or(number("MiB").map(|n| n << 20)).unwrap_or(0)
}

fn table(title: &str, all: &[Vec<CaseOutcome>]) -> String {
    let columns = "| case | worse | better | same | cannot tell | median ratio | median half width | \
                   median smallest change | median pairs |";
    let mut text = format!("{} tries, {title}\n\n{}", all.len(), head(columns));
    for (at, (op, bytes)) in CASES.iter().enumerate() {
        let of = |verdict: &str| all.iter().filter(|one| one[at].verdict == verdict).count();
        let middle = |tell: fn(&CaseOutcome) -> f64| match all.is_empty() {
            true => 0.0,
            false => stats::median(&all.iter().map(|one| tell(&one[at])).collect::<Vec<_>>()),
        };
        let counts = ["worse", "better", "same", "cannot tell"].map(|verdict| of(verdict).to_string()).join(" | ");
        let (half, smallest) = (100.0 * middle(|case| case.half_width), 100.0 * middle(|case| case.smallest));
        text += &format!(
            "| {op} {bytes} | {counts} | {:.3} | {half:.1} % | {smallest:.1} % | {:.0} |\n",
            middle(|case| case.ratio),
            middle(|case| case.pairs as f64)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_is_read_case_by_case_and_a_failed_one_is_no_try() {
        let line = |(op, bytes): &(&str, &str), status: &str| {
            serde_json::json!({
                "parameters": {"op": op, "bytes": in_bytes(bytes)}, "status": status, "verdict": "same", "ratio": 1.0,
                "ratio_ci95": [0.98, 1.02], "smallest_change": 0.03, "log_ratios": [0.0, 0.1], "time_s": [1e-4, 1e-4],
            })
        };
        let lines = |status: &str| CASES.iter().rev().map(|case| line(case, status)).collect::<Vec<_>>();
        let outcomes = read(&lines("ok")).unwrap();
        assert_eq!((outcomes.len(), outcomes[0].pairs), (4, 2));
        assert!((outcomes[0].half_width - 0.02).abs() < 1e-12);
        assert!((delay_s(std::slice::from_ref(&outcomes), 1) - 3e-6).abs() < 1e-12);
        assert!(table("x", &[outcomes]).contains("| all_reduce 64KiB | 0 | 0 | 1 | 0 |"));
        assert!(read(&lines("failed")).is_err() && read(&[]).is_err());
        assert!(plan(Some(&[1e-6; 4])).contains("time=1000ns"));
    }

    #[test]
    fn options_are_read_or_refused() {
        assert_eq!(Options::read(&["--tries", "3", "--planted", "2"]).map(|o| (o.tries, o.planted)), Ok((3, 2)));
        assert!(Options::read(&["--seconds", "0"]).is_err() && Options::read(&["--seconds", "x"]).is_err());
        assert!(Options::read(&["--tries", "0", "--planted", "1"]).is_err());
    }
}
