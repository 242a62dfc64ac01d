//! What the exit status says: the one table, for help and for the reference.

/// A line of the table.
pub(crate) struct ExitCode {
    /// One number, or several that mean the same in different cases.
    pub(crate) codes: &'static str,
    /// In a few words, for help; empty: help leaves it out.
    pub(crate) short: &'static str,
    /// In a sentence.
    #[cfg_attr(not(test), expect(dead_code, reason = "docs/reference/exit-codes.md is made of it, by a test"))]
    pub(crate) meaning: &'static str,
}

/// In the order of help.
pub(crate) const EXIT_CODES: [ExitCode; 7] = [
    ExitCode { codes: "0", short: "fine", meaning: "success" },
    ExitCode {
        codes: "1",
        short: "a check or a gate failed",
        meaning: "the run finished, but a case failed or did not run, an element was wrong, or a gate (`--expect`) was missed; of `hang`: the job hangs",
    },
    ExitCode {
        codes: "2",
        short: "it could not run",
        meaning: "the run was not possible: the plan was refused, every case was skipped, or output could not be written",
    },
    ExitCode {
        codes: "3",
        short: "a comparison cannot tell",
        meaning: "`compare`, `baseline check`, `fleet` and `--baseline`: at least one case or node cannot be told, and none is worse",
    },
    ExitCode {
        codes: "70",
        short: "",
        meaning: "a process of an external launcher, or of PyTorch: the coordinator died, or said nothing for 60 s",
    },
    ExitCode {
        codes: "71",
        short: "",
        meaning: "a process of an external launcher: it could not connect to the coordinator in time, its launcher ended before, or the system refused something",
    },
    ExitCode {
        codes: "130, 143, 129",
        short: "",
        meaning: "interrupted by Ctrl-C, SIGTERM, SIGHUP; the record is valid, and `--resume` continues it",
    },
];

/// The last line of `rankmark --help`.
pub(crate) fn summary() -> String {
    let short = EXIT_CODES.iter().filter(|code| !code.short.is_empty());
    let parts: Vec<String> = short.map(|code| format!("{} {}", code.codes, code.short)).collect();
    format!("Exit status: {}.", parts.join(", "))
}
