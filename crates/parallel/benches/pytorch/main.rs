//! Training steps against PyTorch's, alternated in one run: `cargo bench -p rankmark-parallel --bench pytorch -- --python PYTHON`.
//!
//! Each case is set up on both sides; then rounds of a few steps alternate, so that both see the same machine. The
//! ratio is that of the rounds' medians, pair by pair, with the interval of a median. The last columns are the fastest
//! step of each side: where others use the same cores now and then, what each reaches when they do not. Without `--python`
//! only ours is timed.
//!
//! `--cases gpt2,block,bert_base,resnet50,gpt2_bf16,gpt2_ddp` `--threads 2` `--rounds 12` `--steps 2` `--modes eager,compile`
//! `--preload LIBRARY` (an allocator for PyTorch).

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints its table"
)]

mod ours;
mod peer;

use std::process::ExitCode;

use ours::Ours;
use peer::Peer;

struct Arguments {
    python: Option<String>,
    preload: Option<String>,
    cases: Vec<String>,
    modes: Vec<String>,
    threads: usize,
    rounds: usize,
    steps: usize,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments {
        python: None,
        preload: None,
        cases: ours::CASES.iter().map(|case| case.name.to_owned()).collect(),
        modes: vec!["eager".to_owned()],
        threads: 2,
        rounds: 12,
        steps: 2,
    };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let list = |text: String| text.split(',').map(str::to_owned).collect();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{word}: {value} is not a number"));
        match word.as_str() {
            "--python" => found.python = Some(value),
            "--preload" => found.preload = Some(value),
            "--cases" => found.cases = list(value),
            "--modes" => found.modes = list(value),
            "--threads" => found.threads = number()?,
            "--rounds" => found.rounds = number()?,
            "--steps" => found.steps = number()?,
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok(found)
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    println!(
        "case            ours ms   cpu s   torch ms   cpu s   ratio (95%)             fastest: ours   torch   ratio"
    );
    for name in &arguments.cases {
        let case = ours::CASES.iter().find(|case| case.name == name).ok_or_else(|| format!("no case {name}"))?;
        let mut ours = Ours::new(case, arguments.threads)?;
        for _ in 0..3 {
            ours.steps(1)?;
        }
        for mode in &arguments.modes {
            match &arguments.python {
                Some(python) => {
                    let mut peer = Peer::new(python, arguments.preload.as_deref(), case, arguments.threads, mode)?;
                    compare(arguments, case.name, mode, &mut ours, Some(&mut peer))?;
                    peer.quit();
                }
                None => compare(arguments, case.name, mode, &mut ours, None)?,
            }
        }
    }
    Ok(())
}

/// Seconds of a step, and CPU seconds of one, in each round.
pub(crate) struct Rounds {
    pub(crate) seconds: Vec<f64>,
    pub(crate) cpu: Vec<f64>,
    /// Seconds of the fastest step of all rounds.
    pub(crate) fastest: f64,
}

impl Rounds {
    fn new() -> Self {
        Self { seconds: Vec::new(), cpu: Vec::new(), fastest: f64::INFINITY }
    }

    pub(crate) fn add(&mut self, seconds: &[f64], cpu: &[f64]) {
        self.seconds.push(stats::median(seconds));
        self.cpu.push(stats::median(cpu));
        self.fastest = seconds.iter().copied().fold(self.fastest, f64::min);
    }
}

fn compare(
    arguments: &Arguments,
    name: &str,
    mode: &str,
    ours: &mut Ours,
    mut peer: Option<&mut Peer>,
) -> Result<(), String> {
    let (mut own, mut other) = (Rounds::new(), Rounds::new());
    for _ in 0..arguments.rounds {
        let (seconds, cpu) = ours.steps(arguments.steps)?;
        own.add(&seconds, &cpu);
        if let Some(peer) = peer.as_deref_mut() {
            let (seconds, cpu) = peer.steps(arguments.steps)?;
            other.add(&seconds, &cpu);
        }
    }
    let (ms, cpu) = (stats::median(&own.seconds) * 1e3, stats::median(&own.cpu));
    let best = own.fastest * 1e3;
    if other.seconds.is_empty() {
        println!("{name:<14} {ms:>8.1} {cpu:>7.2}   fastest {best:.1}");
        return Ok(());
    }
    let ratios: Vec<f64> = own.seconds.iter().zip(&other.seconds).map(|(own, other)| other / own).collect();
    let ratio = stats::median(&ratios);
    let extremes = || ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), each| (low.min(*each), high.max(*each)));
    let (low, high) = stats::median_interval(&ratios).map_or_else(extremes, |interval| (interval.low, interval.high));
    let (theirs, their_cpu) = (stats::median(&other.seconds) * 1e3, stats::median(&other.cpu));
    let whole = format!("{ratio:.2} ({low:.2}-{high:.2}) {mode}");
    let their_best = other.fastest * 1e3;
    println!(
        "{name:<14} {ms:>8.1} {cpu:>7.2} {theirs:>10.1} {their_cpu:>7.2}   {whole:<28} {best:>8.1} {their_best:>7.1}   {:.2}",
        their_best / best
    );
    Ok(())
}
