//! Our measurement of an MPI library against a plain loop in C (peers/mpi/loop.c), in pairs, one launch each:
//! `cargo bench -p rankmark --bench mpi [-- --pairs 20 --seconds 0.5 --ranks 2 --bytes 1024,65536,1048576]`.
//!
//! "Equal within 3%" means that the 95% interval of the median ratio of at least 20 pairs lies inside of +-3%; at the
//! smallest size the difference in nanoseconds is what matters. Libraries without their compiler are named and left out.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

/// Library as the loader finds it, compiler, launcher.
const LIBRARIES: [(&str, &str, &str); 2] =
    [("libmpi.so.40", "mpicc.openmpi", "mpirun.openmpi"), ("libmpich.so.12", "mpicc.mpich", "mpirun.mpich")];

struct Wanted {
    pairs: usize,
    seconds: f64,
    ranks: String,
    bytes: Vec<u64>,
}

fn wanted() -> Result<Wanted, String> {
    let mut wanted =
        Wanted { pairs: 20, seconds: 0.5, ranks: "2".to_owned(), bytes: vec![1 << 10, 1 << 16, 1 << 20, 16 << 20] };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let wrong = |_| format!("{word}: {value} is no number");
        match word.as_str() {
            "--pairs" => wanted.pairs = value.parse().map_err(wrong)?,
            "--seconds" => wanted.seconds = value.parse().map_err(|_| format!("{word}: {value} is no number"))?,
            "--ranks" => wanted.ranks = value,
            "--bytes" => wanted.bytes = value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(wrong)?,
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok(wanted)
}

fn main() -> ExitCode {
    let run = wanted().and_then(|wanted| {
        let place = std::env::temp_dir().join(format!("rankmark-mpi-{}", std::process::id()));
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        let done = LIBRARIES.iter().try_for_each(|library| compare(*library, &wanted, &place));
        std::fs::remove_dir_all(&place).map_err(|error| error.to_string()).and(done)
    });
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn compare((library, compiler, launcher): (&str, &str, &str), wanted: &Wanted, place: &Path) -> Result<(), String> {
    let Some(program) = compile(compiler, place)? else {
        println!("{library}: left out, no {compiler}");
        return Ok(());
    };
    let (mut ours, mut loops) = (vec![Vec::new(); wanted.bytes.len()], vec![Vec::new(); wanted.bytes.len()]);
    for pair in 0..wanted.pairs {
        // A B B A: whatever drifts meets both alike.
        for turn in [pair % 2, 1 - pair % 2] {
            let (times, all) = if turn == 0 {
                (plain(&program, launcher, wanted)?, &mut loops)
            } else {
                (measured(library, wanted, &place.join(format!("{library}-{pair}")))?, &mut ours)
            };
            all.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
        }
    }
    println!("{library}, {} ranks, {} pairs: a call of all_reduce in ns", wanted.ranks, wanted.pairs);
    println!("{:>12} {:>14} {:>14} {:>12} {:>8}  95% of the ratio", "bytes", "ours", "C loop", "difference", "ratio");
    for (at, bytes) in wanted.bytes.iter().enumerate() {
        let pairs = || ours[at].iter().zip(&loops[at]);
        let ratios: Vec<f64> = pairs().map(|(ours, plain)| ours / plain).collect();
        let differences: Vec<f64> = pairs().map(|(ours, plain)| ours - plain).collect();
        let interval = stats::median_interval(&ratios);
        let interval = interval.map_or("too few pairs".to_owned(), |of| format!("{:.3} to {:.3}", of.low, of.high));
        println!(
            "{bytes:>12} {:>14.1} {:>14.1} {:>+12.1} {:>8.3}  {interval}",
            stats::median(&ours[at]),
            stats::median(&loops[at]),
            stats::median(&differences),
            stats::median(&ratios),
        );
    }
    Ok(())
}

/// None where there is no such compiler.
fn compile(compiler: &str, place: &Path) -> Result<Option<PathBuf>, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/mpi/loop.c");
    let program = place.join(format!("loop-{compiler}"));
    match Command::new(compiler).arg("-O2").arg("-o").arg(&program).arg(source).status() {
        Ok(status) if status.success() => Ok(Some(program)),
        Ok(status) => Err(format!("{compiler}: {status}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{compiler}: {error}")),
    }
}

fn text(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Nanoseconds of a call, by the loop.
fn plain(program: &Path, launcher: &str, wanted: &Wanted) -> Result<Vec<f64>, String> {
    let mut command = Command::new(launcher);
    command.args(["-n", &wanted.ranks]);
    if launcher.contains("openmpi") {
        command.args(["--oversubscribe", "--bind-to", "none"]);
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    }
    command.arg(program).arg(wanted.seconds.to_string()).args(wanted.bytes.iter().map(u64::to_string));
    let text = text(&mut command)?;
    let times: Vec<f64> = text.lines().filter_map(|line| line.split_once(' ')?.1.parse().ok()).collect();
    if times.len() == wanted.bytes.len() { Ok(times) } else { Err(format!("{launcher}: not understood: {text}")) }
}

/// Nanoseconds of a call, as we measure it.
fn measured(library: &str, wanted: &Wanted, record: &Path) -> Result<Vec<f64>, String> {
    let bytes: Vec<String> = wanted.bytes.iter().map(u64::to_string).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankmark"));
    command.args(["comm", "all_reduce", "--backend", "mpi", "--mpi-library", library, "--ranks", &wanted.ranks]);
    command.args(["--bytes", &bytes.join(","), "--limits", "false", "--target-precision", "0.1%"]);
    command.args(["--max-seconds", &format!("{}s", wanted.seconds), "--output-dir"]).arg(record).arg("--quiet");
    text(&mut command)?;
    let lines = std::fs::read_to_string(record.join("cases.jsonl")).map_err(|error| error.to_string())?;
    let time = |line: &str| serde_json::from_str::<Value>(line).ok()?.pointer("/time_s/median")?.as_f64();
    let times: Vec<f64> = lines.lines().filter_map(time).map(|seconds| seconds * 1e9).collect();
    if times.len() == wanted.bytes.len() { Ok(times) } else { Err(format!("not all sizes were measured: {lines}")) }
}
