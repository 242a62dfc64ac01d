//! Native products beside torch's: the same type and size on the same GPU, by turns.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::peer::{middle, output};

const SIDE: u32 = 8192;
const TYPES: [&str; 7] = ["f32", "tf32", "f64", "bf16", "f16", "f8e4m3", "i8"];
const ROUNDS: usize = 5;

/// Medians of both for each type, and the ratio with its extremes over rounds.
///
/// # Errors
/// What could not be run.
pub(super) fn table(root: &Path, (program, python): (&Path, &Path), out: &Path) -> Result<String, String> {
    let mut text = format!(
        "\n| {SIDE} x {SIDE} x {SIDE} | torch, TFLOP/s | Rankmark, TFLOP/s | ratio (least to most of {ROUNDS}) |\n|---|---|---|---|\n"
    );
    for kind in TYPES {
        let mut pairs = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            let theirs = torch(root, python, kind);
            let record = out.join("records").join(format!("product-{kind}-{round}"));
            pairs.push(theirs.and_then(|theirs| Ok((theirs, native(program, kind, &record)?))));
        }
        let pairs: Result<Vec<(f64, f64)>, String> = pairs.into_iter().collect();
        let _ = match pairs {
            // A GPU may lack the type.
            Err(why) => {
                writeln!(text, "| {kind} | {} | | |", why.lines().last().unwrap_or_default().replace('|', "\\|"))
            }
            Ok(pairs) => {
                let [theirs, ours] = [|pair: &(f64, f64)| pair.0, |pair: &(f64, f64)| pair.1]
                    .map(|of| middle(pairs.iter().map(of).collect()));
                let ratios: Vec<f64> = pairs.iter().map(|(theirs, ours)| ours / theirs).collect();
                let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let most = ratios.iter().copied().fold(0.0, f64::max);
                let ratio = middle(ratios);
                writeln!(text, "| {kind} | {theirs:.1} | {ours:.1} | {ratio:.3} ({least:.3} to {most:.3}) |")
            }
        };
    }
    Ok(text)
}

/// TFLOP/s of torch.
fn torch(root: &Path, python: &Path, kind: &str) -> Result<f64, String> {
    let mut command = Command::new(python);
    command.arg(root.join("xtask/jobs/products.py")).args([&SIDE.to_string(), kind]);
    let text = output(&mut command)?;
    text.trim().parse().map_err(|_| format!("torch printed no rate: {text}"))
}

/// TFLOP/s of native ranks.
fn native(program: &Path, kind: &str, record: &Path) -> Result<f64, String> {
    let way = if kind == "tf32" { "--dtype f32 --matmul tf32".to_owned() } else { format!("--dtype {kind}") };
    let words = format!("hardware gemm --device cuda --ranks 1 --size {SIDE} {way} --quick --json --output-dir");
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).arg(record);
    rate(&output(&mut command)?).ok_or_else(|| format!("no product of {kind}"))
}

/// TFLOP/s of the case that was measured.
fn rate(text: &str) -> Option<f64> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rate = |line: Value| (line["status"] == "ok").then(|| line["gflops"].as_f64()).flatten();
    lines.into_iter().find_map(rate).map(|gflops| gflops / 1e3)
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn a_rate_is_that_of_the_case_that_was_measured() {
        let text = "progress\n{\"status\": \"skipped\", \"gflops\": 1.0}\n{\"status\": \"ok\", \"gflops\": 2500.0}\n";
        assert_eq!(rate(text), Some(2.5));
        assert_eq!(rate("{\"status\": \"failed\"}"), None);
    }
}
