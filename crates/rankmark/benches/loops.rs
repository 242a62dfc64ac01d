//! Our measurement of other people's collectives against a plain loop around them, in pairs, one launch each: MPI against
//! peers/mpi/loop.c, gloo against peers/pytorch/loop.py under torchrun.
//!
//! `cargo bench -p rankmark --bench loops [-- --pairs 20 --seconds 0.5 --ranks 2 --bytes 1024,65536 --python PYTHON --only gloo]`
//!
//! "Equal within 3%" means that the 95% interval of the median ratio of at least 20 pairs lies inside of +-3%; at the
//! smallest size the difference in nanoseconds is what matters. What has no compiler or no PyTorch is named and left out.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

/// Somebody's collectives: how we are asked to measure them, and what runs a plain loop around them.
struct Peer {
    name: String,
    flags: Vec<String>,
    /// Given RANKS for `{}`, then seconds and sizes.
    plain: Vec<String>,
    /// Whether the loop is told, behind each size, how many calls our samples had in a first run: gloo's times spread so widely that the
    /// median of single calls is another than that of means of several.
    told_calls: bool,
}

struct Wanted {
    pairs: usize,
    seconds: f64,
    ranks: String,
    bytes: Vec<u64>,
    python: Option<String>,
    /// The beginning of the name of whom to compare with; all, if empty.
    only: String,
}

fn wanted() -> Result<Wanted, String> {
    let bytes = vec![1 << 10, 1 << 16, 1 << 20, 16 << 20];
    let mut wanted =
        Wanted { pairs: 20, seconds: 0.5, ranks: "2".to_owned(), bytes, python: None, only: String::new() };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let wrong = |_| format!("{word}: {value} is no number");
        match word.as_str() {
            "--pairs" => wanted.pairs = value.parse().map_err(wrong)?,
            "--seconds" => wanted.seconds = value.parse().map_err(|_| format!("{word}: {value} is no number"))?,
            "--ranks" => wanted.ranks = value,
            "--bytes" => wanted.bytes = value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(wrong)?,
            "--python" => wanted.python = Some(value),
            "--only" => wanted.only = value,
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok(wanted)
}

fn main() -> ExitCode {
    let run = wanted().and_then(|wanted| {
        let place = std::env::temp_dir().join(format!("rankmark-loops-{}", std::process::id()));
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        let done =
            peers(&wanted, &place).and_then(|peers| peers.iter().try_for_each(|peer| compare(peer, &wanted, &place)));
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

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Those that are here.
fn peers(wanted: &Wanted, place: &Path) -> Result<Vec<Peer>, String> {
    let mut peers = Vec::new();
    for (library, compiler, launcher, headers) in [
        ("libmpi.so.40", "mpicc.openmpi", "mpirun.openmpi -n {} --oversubscribe --bind-to none", "libopenmpi-dev"),
        ("libmpich.so.12", "mpicc.mpich", "mpirun.mpich -n {}", "libmpich-dev"),
    ] {
        let Some(program) = compile(compiler, place)? else {
            println!("{library}: left out, no {compiler} that compiles (hint: apt-get install {headers})");
            continue;
        };
        let flags = words(&format!("--backend mpi --mpi-library {library}"));
        let plain = words(&format!("{launcher} {}", program.display()));
        peers.push(Peer { name: library.to_owned(), flags, plain, told_calls: false });
    }
    match &wanted.python {
        None => println!("gloo: left out, no --python"),
        Some(python) => {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/pytorch/loop.py");
            let run = "-m torch.distributed.run --standalone --nproc-per-node {}";
            let plain = words(&format!("{python} {run} {}", script.display()));
            let flags = words(&format!("--runtime pytorch --python {python}"));
            peers.push(Peer { name: "gloo".to_owned(), flags, plain, told_calls: true });
        }
    }
    peers.retain(|peer| peer.name.starts_with(&wanted.only));
    if peers.is_empty() { Err(format!("nobody to compare with begins with `{}`", wanted.only)) } else { Ok(peers) }
}

fn compare(peer: &Peer, wanted: &Wanted, place: &Path) -> Result<(), String> {
    let (mut ours, mut loops) = (vec![Vec::new(); wanted.bytes.len()], vec![Vec::new(); wanted.bytes.len()]);
    let record = |name: &str| place.join(format!("{}-{name}", peer.name));
    let calls = if peer.told_calls { measured(peer, wanted, &record("first"))?.1 } else { Vec::new() };
    for pair in 0..wanted.pairs {
        // A B B A: whatever drifts meets both alike.
        for turn in [pair % 2, 1 - pair % 2] {
            let (times, all) = if turn == 0 {
                (plain(peer, wanted, &calls)?, &mut loops)
            } else {
                (measured(peer, wanted, &record(&pair.to_string()))?.0, &mut ours)
            };
            all.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
        }
    }
    println!("{}, {} ranks, {} pairs: a call of all_reduce in ns", peer.name, wanted.ranks, wanted.pairs);
    println!("{:>12} {:>14} {:>14} {:>12} {:>8}  95% of the ratio", "bytes", "ours", "loop", "difference", "ratio");
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

/// None where there is no such compiler, or only its name: Debian has that beside the library, without headers.
fn compile(compiler: &str, place: &Path) -> Result<Option<PathBuf>, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/mpi/loop.c");
    let program = place.join(format!("loop-{compiler}"));
    match Command::new(compiler).arg("-O2").arg("-o").arg(&program).arg(source).status() {
        Ok(status) if status.success() => Ok(Some(program)),
        Ok(_) => Ok(None),
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

/// Nanoseconds of a call, by the loop, which is told so many calls a sample of each size, if any.
fn plain(peer: &Peer, wanted: &Wanted, calls: &[u64]) -> Result<Vec<f64>, String> {
    let mut words = peer.plain.iter().map(|word| word.replace("{}", &wanted.ranks));
    let mut command = Command::new(words.next().unwrap_or_default());
    let told = |at: usize| calls.get(at).map_or(String::new(), |calls| format!(":{calls}"));
    let sizes = wanted.bytes.iter().enumerate().map(|(at, bytes)| format!("{bytes}{}", told(at)));
    command.args(words).arg(wanted.seconds.to_string()).args(sizes);
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    let text = text(&mut command)?;
    let times: Vec<f64> = text.lines().filter_map(|line| line.split_once(' ')?.1.parse().ok()).collect();
    if times.len() == wanted.bytes.len() { Ok(times) } else { Err(format!("{}: not understood: {text}", peer.name)) }
}

/// Nanoseconds of a call, as we measure it, and how many calls a sample had.
fn measured(peer: &Peer, wanted: &Wanted, record: &Path) -> Result<(Vec<f64>, Vec<u64>), String> {
    let bytes: Vec<String> = wanted.bytes.iter().map(u64::to_string).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankmark"));
    command.args(["comm", "all_reduce", "--ranks", &wanted.ranks]).args(&peer.flags);
    command.args(["--bytes", &bytes.join(","), "--limits", "false", "--target-precision", "0.1%"]);
    command.args(["--max-seconds", &format!("{}s", wanted.seconds), "--output-dir"]).arg(record).arg("--quiet");
    text(&mut command)?;
    let lines = std::fs::read_to_string(record.join("cases.jsonl")).map_err(|error| error.to_string())?;
    let case = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some((line.pointer("/time_s/median")?.as_f64()? * 1e9, line.get("calls_per_sample")?.as_u64()?))
    };
    let (times, calls): (Vec<f64>, Vec<u64>) = lines.lines().filter_map(case).unzip();
    if times.len() == wanted.bytes.len() {
        Ok((times, calls))
    } else {
        Err(format!("not all sizes were measured: {lines}"))
    }
}
