//! Native ranks beside nccl-tests: the same operation on the same GPU, by turns, so that what disturbs one disturbs the other.

use serde_json::Value;

use super::Run;

/// Bytes, and calls of nccl-tests for each.
pub(super) const SIZES: [(u64, u32); 4] = [(8, 2000), (64 << 10, 2000), (16 << 20, 500), (1 << 30, 50)];
const ROUNDS: usize = 5;

/// Medians of both for a size and each placement, and the ratio with its extremes over rounds.
///
/// # Errors
/// What could not be run.
pub(super) fn row(run: &Run<'_>, at: usize) -> Result<String, String> {
    let (bytes, calls) = SIZES[at];
    let mut pairs: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let name = format!("nccl_tests_{bytes}_{round}");
        let theirs = peers(run, &format!("{name}_peer"), bytes, calls)?;
        let ours = native(run, &name, bytes)?;
        for (pairs, pair) in pairs.iter_mut().zip(theirs.into_iter().zip(ours)) {
            pairs.push(pair);
        }
    }
    let said = ["out of place", "in place"].iter().zip(&pairs).map(|(placement, pairs)| {
        let median = |of: fn(&(f64, f64)) -> f64| middle(pairs.iter().map(of).collect());
        let ratios: Vec<f64> = pairs.iter().map(|(theirs, ours)| ours / theirs).collect();
        let (least, most) =
            ratios.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
        let (theirs, ours) = (median(|pair| pair.0), median(|pair| pair.1));
        let ratio = middle(ratios);
        format!(
            "{placement}: nccl-tests {theirs:.2} us, Rankmark {ours:.2} us, {ratio:.3} times ({least:.3} to {most:.3})"
        )
    });
    Ok(said.collect::<Vec<_>>().join("; "))
}

pub(super) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What a command prints.
///
/// # Errors
/// It could not start, or failed.
pub(super) fn output(run: &Run<'_>, name: &str, words: &[String]) -> Result<String, String> {
    let ended = run.execute(name, words)?;
    match ended.code {
        Some(0) => Ok(ended.standard),
        Some(code) => Err(format!("exit code {code}: {}", ended.last_words())),
        None => Err(ended.late()),
    }
}

/// Microseconds of nccl-tests, out of place and in place.
fn peers(run: &Run<'_>, name: &str, bytes: u64, calls: u32) -> Result<[f64; 2], String> {
    let peer = run.peer.ok_or("no nccl-tests")?.display().to_string();
    let (size, calls) = (bytes.to_string(), calls.to_string());
    let words = ["-b", &size, "-e", &size, "-w", "50", "-g", "1", "-n", &calls].map(str::to_owned);
    let all: Vec<String> = std::iter::once(peer.clone()).chain(words).collect();
    row_of(&output(run, name, &all)?, &size).ok_or_else(|| format!("{peer}: no row of {size} bytes"))
}

/// Times of the row of this size: `size count type op root time algbw busbw #wrong time ...`.
fn row_of(text: &str, size: &str) -> Option<[f64; 2]> {
    let row = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words.first() == Some(&size))?;
    Some([row.get(5)?.parse().ok()?, row.get(9)?.parse().ok()?])
}

/// Microseconds of native ranks, out of place and in place.
fn native(run: &Run<'_>, name: &str, bytes: u64) -> Result<[f64; 2], String> {
    let words = format!(
        "comm all_reduce --backend nccl --ranks 1 --in-place false,true --bytes {bytes} --quick --json --output-dir"
    );
    let mut all = vec![run.program.display().to_string()];
    all.extend(words.split_whitespace().map(str::to_owned));
    all.push(run.record(name).display().to_string());
    let lines: Vec<Value> =
        output(run, name, &all)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
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
        assert_eq!(row_of(text, "8"), Some([6.37, 0.36]));
        assert_eq!(row_of(text, "16"), None);
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
