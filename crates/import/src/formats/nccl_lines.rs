//! Lines of nccl-tests that are not rows: ranks, what becomes nothing, and options that are not a method.

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

/// Options that tell what is measured, that the line of options repeats, or that do not change how calls run.
pub(super) const NO_METHOD: &[&str] = &[
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
