//! Lines of nccl-tests that are not rows: ranks, command lines, what becomes nothing, and options that are not a method.

use super::command;

/// How the head of a run begins, behind `#`.
const HEADS: &[&str] = &["nThread ", "nccl-tests version ", "rccl-tests version ", "Collective test starting:"];

/// Whether a line is one with which a run begins, or the header of its table.
pub(super) fn begins_run(line: &str) -> bool {
    let bare = line.trim_start().trim_start_matches('#').trim_start();
    is_header(line) || HEADS.iter().any(|head| bare.starts_with(head))
}

/// Whether a line is the header of a table.
pub(super) fn is_header(text: &str) -> bool {
    let mut words = text.trim_start_matches(['#', ' ', '\t']).split_ascii_whitespace();
    words.next() == Some("size") && words.next() == Some("count") && words.any(|word| word == "algbw")
}

/// Ranks that a run lists.
#[derive(Default)]
pub(super) struct Ranks {
    /// Ranks of each group (NCCL_TESTS_SPLIT), the first rank's group first.
    pub(super) groups: Vec<(u32, u32)>,
    largest: u32,
    /// Lines of a rank 0: each program has one.
    pub(super) zeros: usize,
}

impl Ranks {
    /// Takes the line of a rank.
    pub(super) fn add(&mut self, number: u32, group: u32) {
        match self.groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, ranks)) => *ranks += 1,
            None => self.groups.push((group, 1)),
        }
        self.largest = self.largest.max(number);
        self.zeros += usize::from(number == 0);
    }

    /// Ranks of one communicator. Lines may be cut off, so without groups the largest rank counts.
    pub(super) fn of_communicator(&self) -> Option<u32> {
        let (_, first) = self.groups.first()?;
        Some(if self.groups.len() > 1 { *first } else { self.largest + 1 })
    }
}

/// What a command line says.
pub(super) struct ProgramRun {
    pub(super) program: &'static str,
    /// The value of `-a`.
    pub(super) average: &'static str,
    /// What else decides how calls are timed.
    pub(super) method: String,
    /// Processes that its launcher starts.
    pub(super) processes: Option<u32>,
    /// Ranks of each of them: threads times GPUs.
    pub(super) of_process: u32,
    /// The whole command line, without the shell's part.
    pub(super) text: String,
}

impl ProgramRun {
    /// A command line: `mpirun ... ./build/all_reduce_perf -b 8 -a 3`. None if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start_matches(['#', '$', '>', '+', '~', ' ']);
        let program = text.split_ascii_whitespace().find_map(|word| program(word.rsplit('/').next()?))?;
        let (before, options) = text.split_once(program).filter(|(before, _)| command::starts(before))?;
        let value = |names: [&str; 2]| {
            let mut words = options.split_ascii_whitespace();
            words.find(|word| names.contains(word)).and_then(|_| words.next())
        };
        let number = |names| value(names).and_then(|word| word.parse::<u32>().ok()).unwrap_or(1);
        let average = value(["-a", "--average"]).unwrap_or("1");
        Some(Self {
            program,
            average: AVERAGES.iter().find(|known| **known == average).unwrap_or(&"1"),
            method: command::method(before, options, NO_METHOD),
            processes: command::processes(before),
            of_process: number(["-t", "--nthreads"]).saturating_mul(number(["-g", "--ngpus"])),
            text: command::plain(text),
        })
    }
}

/// Values of `-a`.
const AVERAGES: [&str; 4] = ["0", "1", "2", "3"];

/// Programs of nccl-tests and rccl-tests. What stands behind `_perf` in a name (`_mpi`) changes nothing.
const PROGRAMS: [&str; 11] = [
    "all_reduce_perf",
    "all_gather_perf",
    "reduce_scatter_perf",
    "broadcast_perf",
    "reduce_perf",
    "alltoall_perf",
    "alltoallv_perf",
    "gather_perf",
    "scatter_perf",
    "sendrecv_perf",
    "hypercube_perf",
];

/// The program of this name.
fn program(name: &str) -> Option<&'static str> {
    let name = name.strip_suffix("_mpi").unwrap_or(name);
    PROGRAMS.into_iter().find(|program| *program == name)
}

/// Options that tell what is measured, that the line of options repeats, or that do not change how calls run.
const NO_METHOD: &[&str] = &[
    "-b",
    "--minbytes",
    "-e",
    "--maxbytes",
    "-f",
    "--stepfactor",
    "-i",
    "--stepbytes",
    "-o",
    "--op",
    "-d",
    "--datatype",
    "-r",
    "--root",
    "-c",
    "--check",
    "-t",
    "--nthreads",
    "-g",
    "--ngpus",
    "-n",
    "--iters",
    "-w",
    "--warmup_iters",
    "-m",
    "--agg_iters",
    "-G",
    "--cudagraph",
    "-z",
    "--blocking",
    "-a",
    "--average",
    "-T",
    "--timeout",
    "-J",
    "--output_file",
    "-N",
    "--run_cycles",
    "-h",
    "--help",
];

/// How lines of nccl-tests begin that become nothing, behind their `#`.
const OWN: &[&str] = &[
    "Using devices",
    "out-of-place",
    "(B)",
    "Errors with asterisks",
    "Collective test concluded",
    "GPU memory usage",
    "Parallel Init",
    "Writing JSON output to",
    "skipping json output",
    "Reducing maxBytes to",
    "Bitwise Repeatability",
];

/// How lines begin that have no `#`: what RCCL says of itself at its start, and heads of a table whose `#` a page took for
/// the mark of a heading.
const WITHOUT_MARK: &[&str] = &[
    "HIP version  :",
    "ROCm version :",
    "Hostname     :",
    "Librccl path :",
    "out-of-place",
    "(B) ",
    "Errors with asterisks",
];

/// Whether nccl-tests or its library wrote a line that becomes nothing. Headings of a document begin with `#`, too.
pub(super) fn is_own(text: &str, bare: &str) -> bool {
    match text.starts_with('#') {
        true => !text.starts_with("##") && (bare.is_empty() || OWN.iter().any(|first| bare.starts_with(first))),
        false => text == "Using devices" || WITHOUT_MARK.iter().any(|first| text.starts_with(first)),
    }
}
