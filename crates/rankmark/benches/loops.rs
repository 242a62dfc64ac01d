//! Our measurement of other people's collectives against a plain loop around them, in pairs, one launch each: MPI against
//! peers/mpi/loop.c, gloo against peers/pytorch/loop.py under torchrun.
//!
//! `cargo bench -p rankmark --bench loops [-- --pairs 20 --seconds 0.5 --ranks 2 --bytes 1024,65536 --python PYTHON --only gloo
//! --bind core --require median --slack 10]`
//!
//! "Equal within 3%" means that the 95% interval of the median ratio of at least 20 pairs lies inside of +-3%; below 64 KiB
//! the difference counts, within 100 ns. gloo's bound is 5%. `--require interval` ends with 1 where an interval is not inside,
//! `--require median` where neither a median nor a part of its interval is. `--slack` makes all bounds so many times as wide, for
//! a few short pairs on a machine that does other things (`cargo xtask test --full`). `--bind core` binds the ranks of both to a
//! core each, and with them all threads of gloo's: launches are then alike, which otherwise are quick or slow by how its threads
//! happen to share cores. What has no
//! compiler or no PyTorch is named and left out.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints its table"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

/// Somebody's collectives: how we are asked to measure them, and what runs a plain loop around them.
struct Peer {
    name: String,
    flags: Vec<String>,
    /// Given RANKS for `{}`, then seconds and sizes.
    plain: Vec<String>,
    /// Whether the loop gets, after each size, the number of calls in our samples just before. A single call of gloo's after a
    /// barrier takes less than half as long as each of several in a row.
    gets_calls: bool,
    /// Ratios so far from one are taken as equal.
    within: f64,
    /// Below [`SMALL_BYTES`] differences of so many nanoseconds are, in place of that.
    small_ns: Option<f64>,
}

const SMALL_BYTES: u64 = 64 << 10;

/// What must be within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Require {
    Nothing,
    Medians,
    Intervals,
}

/// A median of pairs, with its interval where there are enough.
struct Middle {
    median: f64,
    interval: Option<(f64, f64)>,
}

impl Middle {
    fn from_values(values: &[f64]) -> Self {
        let interval = stats::median_interval(values).map(|of| (of.low, of.high));
        Self { median: stats::median(values), interval }
    }

    /// Whether it lies inside of these, as far as that is required.
    fn is_within(&self, low: f64, high: f64, require: Require) -> bool {
        let inside = |value: f64| (low..=high).contains(&value);
        match require {
            Require::Nothing => true,
            // Few pairs on a busy machine: a median is outside for certain only where its interval is.
            Require::Medians => {
                inside(self.median) || self.interval.is_some_and(|(from, to)| from <= high && to >= low)
            }
            Require::Intervals => self.interval.is_some_and(|(low, high)| inside(low) && inside(high)),
        }
    }
}

struct Wanted {
    pairs: usize,
    seconds: f64,
    ranks: String,
    bytes: Vec<u64>,
    python: Option<String>,
    /// The beginning of the name of whom to compare with; all, if empty.
    only: String,
    /// Whether ranks have one core each.
    bound: bool,
    require: Require,
    /// How many times as wide bounds are.
    slack: f64,
}

fn wanted() -> Result<Wanted, String> {
    let bytes = vec![1 << 10, 1 << 16, 1 << 20, 16 << 20];
    let mut wanted = Wanted {
        pairs: 20,
        seconds: 0.5,
        ranks: "2".to_owned(),
        bytes,
        python: None,
        only: String::new(),
        bound: false,
        require: Require::Nothing,
        slack: 1.0,
    };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let wrong = |_| format!("{word}: {value} is not a number");
        match word.as_str() {
            "--pairs" => wanted.pairs = value.parse().map_err(wrong)?,
            "--seconds" => wanted.seconds = decimal(&word, &value)?,
            "--slack" => wanted.slack = decimal(&word, &value)?,
            "--ranks" => wanted.ranks = value,
            "--bytes" => wanted.bytes = value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(wrong)?,
            "--python" => wanted.python = Some(value),
            "--only" => wanted.only = value,
            "--bind" if value == "core" => wanted.bound = true,
            "--require" if value == "median" => wanted.require = Require::Medians,
            "--require" if value == "interval" => wanted.require = Require::Intervals,
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok(wanted)
}

fn decimal(word: &str, value: &str) -> Result<f64, String> {
    value.parse().map_err(|_| format!("{word}: {value} is not a number"))
}

fn main() -> ExitCode {
    let run = wanted().and_then(|wanted| {
        let place = std::env::temp_dir().join(format!("rankmark-loops-{}", std::process::id()));
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        let done = peers(&wanted, &place)
            .and_then(|peers| peers.iter().try_fold(true, |all, peer| Ok(all & compare(peer, &wanted, &place)?)));
        std::fs::remove_dir_all(&place).map_err(|error| error.to_string()).and(done)
    });
    match run {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            println!("{message}");
            ExitCode::from(2)
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Peers that are here.
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
        peers.push(Peer {
            name: library.to_owned(),
            flags,
            plain,
            gets_calls: false,
            within: 0.03,
            small_ns: Some(100.0),
        });
    }
    match &wanted.python {
        None => println!("gloo: left out, no --python"),
        Some(python) => {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/pytorch/loop.py");
            let run = "-m torch.distributed.run --standalone --nproc-per-node {}";
            // Unbound as torchrun leaves them, and as our ranks of PyTorch are by themselves.
            let (own, theirs) = if wanted.bound { ("--bind core", "--bind-core") } else { ("", "") };
            let plain = words(&format!("{python} {run} {} {theirs}", script.display()));
            let flags = words(&format!("--runtime pytorch --python {python} {own}"));
            peers.push(Peer { name: "gloo".to_owned(), flags, plain, gets_calls: true, within: 0.05, small_ns: None });
        }
    }
    peers.retain(|peer| peer.name.starts_with(&wanted.only));
    if peers.is_empty() { Err(format!("nobody to compare with begins with `{}`", wanted.only)) } else { Ok(peers) }
}

/// Whether all sizes are within what is required.
fn compare(peer: &Peer, wanted: &Wanted, place: &Path) -> Result<bool, String> {
    let (mut ours, mut loops) = (vec![Vec::new(); wanted.bytes.len()], vec![Vec::new(); wanted.bytes.len()]);
    let record = |pair: usize| place.join(format!("{}-{pair}", peer.name));
    for pair in 0..wanted.pairs {
        // A B B A, so that drift affects both equally. A loop that needs our number of calls always runs second.
        if pair % 2 == 0 && !peer.gets_calls {
            add(&mut loops, plain(peer, wanted, &[])?);
            add(&mut ours, measured(peer, wanted, &record(pair))?.0);
        } else {
            let (times, calls) = measured(peer, wanted, &record(pair))?;
            add(&mut ours, times);
            add(&mut loops, plain(peer, wanted, if peer.gets_calls { &calls } else { &[] })?);
        }
    }
    println!("{}, {} ranks, {} pairs: a call of all_reduce in ns", peer.name, wanted.ranks, wanted.pairs);
    println!(
        "{:>12} {:>14} {:>14} {:>12} {:>8}  95% of the ratio    of the difference",
        "bytes", "ours", "loop", "difference", "ratio"
    );
    let row = |(at, bytes): (usize, &u64)| report(peer, wanted, *bytes, &ours[at], &loops[at]);
    // All rows are shown.
    Ok(wanted.bytes.iter().enumerate().map(row).filter(|within| !within).count() == 0)
}

/// Shows a size; whether it is within what is required.
fn report(peer: &Peer, wanted: &Wanted, bytes: u64, ours: &[f64], loops: &[f64]) -> bool {
    let pairs = || ours.iter().zip(loops);
    let ratio = Middle::from_values(&pairs().map(|(ours, plain)| ours / plain).collect::<Vec<_>>());
    let difference = Middle::from_values(&pairs().map(|(ours, plain)| ours - plain).collect::<Vec<_>>());
    let within = match peer.small_ns.filter(|_| bytes < SMALL_BYTES).map(|ns| ns * wanted.slack) {
        Some(ns) => difference.is_within(-ns, ns, wanted.require),
        None => {
            let within = peer.within * wanted.slack;
            ratio.is_within(1.0 - within, 1.0 + within, wanted.require)
        }
    };
    let shown = |middle: &Middle, digits: usize| match middle.interval {
        Some((low, high)) => format!("{low:.digits$} to {high:.digits$}"),
        None => "too few pairs".to_owned(),
    };
    println!(
        "{bytes:>12} {:>14.1} {:>14.1} {:>+12.1} {:>8.3}  {:<18}  {}{}",
        stats::median(ours),
        stats::median(loops),
        difference.median,
        ratio.median,
        shown(&ratio, 3),
        shown(&difference, 0),
        if within { "" } else { "  not within the bound" },
    );
    within
}

fn add(all: &mut [Vec<f64>], times: Vec<f64>) {
    all.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
}

/// None if the compiler is missing or does not work: Debian installs its name with the library, without headers.
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

/// Nanoseconds of a call, by the loop, with this many calls a sample of each size, if given.
fn plain(peer: &Peer, wanted: &Wanted, calls: &[u64]) -> Result<Vec<f64>, String> {
    let mut words = peer.plain.iter().map(|word| word.replace("{}", &wanted.ranks));
    let mut command = Command::new(words.next().unwrap_or_default());
    let calls_suffix = |at: usize| calls.get(at).map_or(String::new(), |calls| format!(":{calls}"));
    let sizes = wanted.bytes.iter().enumerate().map(|(at, bytes)| format!("{bytes}{}", calls_suffix(at)));
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
    command.args(["--bytes", &bytes.join(","), "--limits", "false", "--trials", "1"]);
    command.args(["--max-seconds", &format!("{}s", wanted.seconds), "--output-dir"]).arg(record).arg("--quiet");
    text(&mut command)?;
    let lines = std::fs::read_to_string(record.join("cases.jsonl")).map_err(|error| error.to_string())?;
    let cases: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    // By size, because cases stand in the order in which they ended, which is random.
    let case = |bytes: &u64| {
        let case = cases.iter().find(|case| case.get("bytes").and_then(Value::as_u64) == Some(*bytes))?;
        Some((case.pointer("/time_s/median")?.as_f64()? * 1e9, case.get("calls_per_sample")?.as_u64()?))
    };
    let (times, calls): (Vec<f64>, Vec<u64>) = wanted.bytes.iter().filter_map(case).unzip();
    if times.len() == wanted.bytes.len() {
        Ok((times, calls))
    } else {
        Err(format!("not all sizes were measured: {lines}"))
    }
}
