//! Native products beside torch's: the same type and size on the same GPU, by turns.

use serde_json::Value;

use super::Run;
use super::peer::{middle, output};

const SIDE: u32 = 8192;
/// The ones that training takes first.
pub(super) const TYPES: [&str; 7] = ["bf16", "f32", "tf32", "f16", "f64", "f8e4m3", "i8"];
const ROUNDS: usize = 3;

/// Medians of both, and the ratio with its extremes over rounds.
///
/// # Errors
/// What could not be run. A GPU may lack the type.
pub(super) fn row(run: &Run<'_>, kind: &str) -> Result<String, String> {
    let mut pairs = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        let name = format!("product_{kind}_{round}");
        pairs.push((torch(run, kind, &format!("{name}_torch"))?, native(run, kind, &name)?));
    }
    let [theirs, ours] =
        [|pair: &(f64, f64)| pair.0, |pair: &(f64, f64)| pair.1].map(|of| middle(pairs.iter().map(of).collect()));
    let ratios: Vec<f64> = pairs.iter().map(|(theirs, ours)| ours / theirs).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let ratio = middle(ratios);
    Ok(format!(
        "{SIDE} x {SIDE} x {SIDE}: torch {theirs:.1} TFLOP/s, Rankmark {ours:.1}, {ratio:.3} times ({least:.3} to {most:.3} of {ROUNDS})"
    ))
}

/// TFLOP/s of torch.
fn torch(run: &Run<'_>, kind: &str, name: &str) -> Result<f64, String> {
    let script = run.root.join("xtask/jobs/products.py").display().to_string();
    let words = [run.python.display().to_string(), script, SIDE.to_string(), kind.to_owned()];
    let text = output(run, name, &words)?;
    text.trim().parse().map_err(|_| format!("torch printed no rate: {text}"))
}

/// TFLOP/s of native ranks.
fn native(run: &Run<'_>, kind: &str, name: &str) -> Result<f64, String> {
    let way = if kind == "tf32" { "--dtype f32 --matmul tf32".to_owned() } else { format!("--dtype {kind}") };
    let words = format!("hardware gemm --device cuda --ranks 1 --size {SIDE} {way} --quick --json --output-dir");
    let mut all = vec![run.program.display().to_string()];
    all.extend(words.split_whitespace().map(str::to_owned));
    all.push(run.record(name).display().to_string());
    rate(&output(run, name, &all)?).ok_or_else(|| format!("no product of {kind}"))
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
