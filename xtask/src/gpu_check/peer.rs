//! Native ranks beside nccl-tests: the same operation on the same GPU, by turns, so that what disturbs one disturbs the other.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Bytes, and calls of nccl-tests for each.
const SIZES: [(u64, u32); 4] = [(8, 2000), (64 << 10, 2000), (16 << 20, 500), (1 << 30, 50)];
const ROUNDS: usize = 5;

/// Medians of both for each size and placement, and the ratio with its extremes over rounds.
///
/// # Errors
/// What could not be run.
pub(super) fn table(program: &Path, peer: &Path, out: &Path) -> Result<String, String> {
    let mut text =
        "\n| bytes | placement | nccl-tests, us | Rankmark, us | ratio (least to most of 5) |\n|---|---|---|---|---|\n"
            .to_owned();
    for (bytes, calls) in SIZES {
        let mut pairs: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            let theirs = peers(peer, bytes, calls)?;
            let ours = native(program, bytes, &out.join("records").join(format!("peer-{bytes}-{round}")))?;
            for (pairs, pair) in pairs.iter_mut().zip(theirs.into_iter().zip(ours)) {
                pairs.push(pair);
            }
        }
        for (placement, pairs) in ["out of place", "in place"].iter().zip(&pairs) {
            let median = |of: fn(&(f64, f64)) -> f64| middle(pairs.iter().map(of).collect());
            let ratios: Vec<f64> = pairs.iter().map(|(theirs, ours)| ours / theirs).collect();
            let (least, most) =
                ratios.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
            let (theirs, ours) = (median(|pair| pair.0), median(|pair| pair.1));
            let ratio = middle(ratios);
            let _ = writeln!(
                text,
                "| {bytes} | {placement} | {theirs:.2} | {ours:.2} | {ratio:.3} ({least:.3} to {most:.3}) |"
            );
        }
    }
    Ok(text)
}

pub(super) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let ended = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !ended.status.success() {
        return Err(format!("{command:?}: {}: {}", ended.status, String::from_utf8_lossy(&ended.stderr)));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// Microseconds of nccl-tests, out of place and in place.
fn peers(peer: &Path, bytes: u64, calls: u32) -> Result<[f64; 2], String> {
    let size = bytes.to_string();
    let mut command = Command::new(peer);
    command.args(["-b", &size, "-e", &size, "-w", "50", "-g", "1", "-n", &calls.to_string()]);
    row(&output(&mut command)?, &size).ok_or_else(|| format!("{}: no row of {size} bytes", peer.display()))
}

/// Times of the row of this size: `size count type op root time algbw busbw #wrong time ...`.
fn row(text: &str, size: &str) -> Option<[f64; 2]> {
    let row = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words.first() == Some(&size))?;
    Some([row.get(5)?.parse().ok()?, row.get(9)?.parse().ok()?])
}

/// Microseconds of native ranks, out of place and in place.
fn native(program: &Path, bytes: u64, record: &Path) -> Result<[f64; 2], String> {
    let words = format!(
        "comm all_reduce --backend nccl --ranks 1 --in-place false,true --bytes {bytes} --quick --json --output-dir"
    );
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).arg(record);
    let lines: Vec<Value> = output(&mut command)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let time = |in_place: bool| {
        let line = lines.iter().find(|line| line["parameters"]["in_place"] == in_place)?;
        Some(line["time_s"]["median"].as_f64()? * 1e6)
    };
    time(false).zip(time(true)).map(|(out, own)| [out, own]).ok_or_else(|| format!("{bytes} bytes: no time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_nccl_tests_are_read() {
        let text = "#  size  count type op root time\n           8             2     float     sum      -1     6.37    0.00    0.00      0     0.36    0.02    0.00      0\n";
        assert_eq!(row(text, "8"), Some([6.37, 0.36]));
        assert_eq!(row(text, "16"), None);
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
