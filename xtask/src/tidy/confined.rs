//! Acts that belong to a few crates only: `unsafe`, starting processes, writing files. That only the binary prints, exits
//! and reads the environment is clippy's to see (clippy.toml).

use super::Finding;
use super::mask::product_code;
use super::tree::{File, Tree};

/// An act, and where it may be done.
struct Rule {
    act: &'static str,
    /// Words of the source that do it; each stands alone or before a non-word.
    words: &'static [&'static str],
    /// Crates that may, each with the reason.
    crates: &'static [(&'static str, &'static str)],
    /// Single files of other crates that may, each with the reason.
    files: &'static [(&'static str, &'static str)],
}

/// The table of all such acts. A new exception is one line with its reason.
static RULES: &[Rule] = &[
    Rule {
        act: "is unsafe",
        words: &["unsafe"],
        crates: &[
            ("comm", "ranks share memory"),
            ("device", "maps memory"),
            ("engine", "vector instructions; views of one memory that overlap by plan; binds threads"),
            ("parallel", "loads and reads what a trainer's program works on, between steps"),
            ("process", "handles signals, binds, polls, runs steps between fork and exec, traces processes"),
            ("collective", "fills, checks and streams over buffers that ranks share"),
            ("primitive", "fills, checks and multiplies in buffers that ranks share"),
            ("training", "maps data, bounds its own memory"),
            ("hardware", "streams over memory, fills buffers that ranks share, reads files past the cache"),
            ("survey", "calls functions of libraries that it opens, in a child"),
            ("trace", "reads CLOCK_MONOTONIC_RAW, sends itself the injected signal, tells ranges to a tool"),
        ],
        files: &[
            ("crates/benchmarks/src/rank.rs", "context switches so far"),
            ("crates/benchmarks/src/rank/active.rs", "the word by which ranks agree on a start"),
            ("crates/contract/src/peers.rs", "the words by which ranks hand each other memory of their GPUs"),
            ("crates/control/src/reach.rs", "reads the kernel's list of network interfaces"),
            ("crates/launch/src/rank/exhaustion.rs", "changes the environment while there is one thread"),
            ("crates/launch/src/rank/guardian.rs", "ends the process where it stands"),
            ("crates/launch/src/status.rs", "maps the status page"),
            ("crates/measure/src/machine.rs", "asks the kernel which processors are allowed"),
        ],
    },
    Rule {
        act: "starts processes",
        words: &["process::Command", "Command::new", "libc::fork", "libc::vfork", "libc::execve", "libc::posix_spawn"],
        crates: &[("launch", "starters"), ("process", "runs short-lived children")],
        files: &[("crates/rankmark/src/options/parts.rs", "clap's type has the same name; nothing is started")],
    },
    Rule {
        act: "writes files",
        words: &[
            "fs::write",
            "fs::rename",
            "fs::create_dir",
            "fs::create_dir_all",
            "fs::remove_file",
            "fs::remove_dir_all",
            "File::create",
            "File::create_new",
            "OpenOptions",
        ],
        crates: &[("record", "the record is the only way from a run to anything else; reports go through its `file`")],
        files: &[
            ("crates/device/src/cuda/cache.rs", "kernels compiled for a GPU, in the user's own folder of caches"),
            ("crates/training/src/process.rs", "asks the kernel to forget the peak of memory: /proc only"),
            ("crates/process/src/descriptor.rs", "opens another process's nameless memory: /proc only"),
            (
                "crates/launch/src/external/rendezvous_file.rs",
                "tells the ranks of a launcher where their coordinator is: removed once they have joined",
            ),
        ],
    },
    Rule {
        act: "reads JSON with its control characters",
        words: &[
            "serde_json::from_str",
            "serde_json::from_slice",
            "serde_json::from_reader",
            "Deserializer::from_str",
            "Deserializer::from_slice",
        ],
        crates: &[("record", "`from_json` gives control characters their stand-ins")],
        files: &[
            ("crates/control/src/message.rs", "a rank runs what the user wrote; the coordinator reads by `from_json`"),
            ("crates/control/src/invitation.rs", "addresses and keys, for a rank"),
            ("crates/import/src/decode.rs", "lines within JSON, which get stand-ins after line breaks are known"),
            ("crates/survey/src/inspect.rs", "words of a library come in lines; `Finding` makes them printable"),
            ("crates/survey/src/probe.rs", "the same"),
            ("crates/import/src/json.rs", "gives each value of a file its stand-ins; looks for damage"),
        ],
    },
    Rule {
        act: "reads arguments by name",
        words: &[
            "get_one",
            "get_many",
            "get_flag",
            "get_count",
            "get_raw",
            "try_get_one",
            "try_get_many",
            "contains_id",
        ],
        crates: &[],
        files: &[
            ("crates/rankmark/src/options/mod.rs", "options of fields, whose names benchmarks declare"),
            ("crates/rankmark/src/commands/gen_job.rs", "options of launchers, whose names they declare"),
            ("crates/rankmark/src/external.rs", "whether records are given, before a command reads its arguments"),
        ],
    },
];

/// Acts outside the crates and files that may, and exceptions that nothing needs.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = misplaced(tree);
    findings.extend(RULES.iter().flat_map(|rule| rule.unneeded(tree)));
    findings
}

fn misplaced(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.is_product()) {
        let code = product_code(&file.text);
        for rule in RULES.iter().filter(|rule| !rule.allows(file)) {
            let mut hits = code.lines().enumerate().filter_map(|(number, line)| {
                let word = rule.words.iter().find(|word| stands_in(line, word))?;
                Some((number + 1, word))
            });
            // One finding a file: what is wrong is that the file does it at all.
            if let Some((line, word)) = hits.next() {
                let more = hits.count();
                let more = if more == 0 { String::new() } else { format!(", and on {more} more lines") };
                let what = format!("`{word}`{more}: this file never {} (xtask/src/tidy/confined.rs)", rule.act);
                findings.push(Finding::error(&file.path, line, what));
            }
        }
    }
    findings
}

impl Rule {
    fn allows(&self, file: &File) -> bool {
        self.crates.iter().any(|(name, _)| file.package() == Some(name))
            || self.files.iter().any(|(path, _)| file.path == *path)
    }

    /// Exceptions for a file that is gone or does it no longer: they would hide the next one.
    fn unneeded(&self, tree: &Tree) -> Vec<Finding> {
        let does = |path: &str| {
            let code = tree.files.iter().find(|file| file.path == path).map(|file| product_code(&file.text));
            code.is_some_and(|code| code.lines().any(|line| self.words.iter().any(|word| stands_in(line, word))))
        };
        let gone = self.files.iter().filter(|(path, _)| !does(path));
        gone.map(|(path, _)| Finding::error(path, 0, format!("needs no exception: it never {}", self.act))).collect()
    }
}

/// Whether the word stands in the line by itself: `unsafe` does not stand in `not_unsafe`, nor `fs::write` in `fs::writes`.
fn stands_in(line: &str, word: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        misplaced(&of_files(&[(path, text)])).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn each_act_is_found_where_it_does_not_belong() {
        for line in ["unsafe { f() }", "Command::new(\"sh\");", "std::fs::write(path, text)?;"] {
            let text = format!("//! Doc.\nfn f() {{\n{line}\n}}\n");
            let findings = found("crates/stats/src/lib.rs", &text);
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].starts_with("error: crates/stats/src/lib.rs:3: "), "{findings:?}");
        }
        let twice = found("crates/stats/src/lib.rs", "unsafe {}\nunsafe {}\nunsafe {}\n");
        assert_eq!(twice.len(), 1);
        assert!(twice[0].contains(", and on 2 more lines:"), "{twice:?}");
    }

    #[test]
    fn crates_that_may_are_left_alone() {
        assert_eq!(found("crates/comm/src/shm.rs", "unsafe {}").len(), 0);
        assert_eq!(found("crates/record/src/run.rs", "File::create(path)").len(), 0);
    }

    #[test]
    fn tests_comments_texts_and_chores_do_not_count() {
        for (path, text) in [
            (
                "crates/stats/src/lib.rs",
                "// unsafe\nlet a = \"unsafe\";\n#[cfg(test)] mod tests { fn a() { unsafe { f() } } }",
            ),
            ("crates/stats/tests/all/main.rs", "Command::new(\"sh\");"),
            ("crates/stats/src/lib.rs", "my_fs::writes(); MyCommand::new(); temp_dir(); not_unsafe();"),
            ("xtask/src/main.rs", "Command::new(\"sh\");"),
        ] {
            assert_eq!(found(path, text), Vec::<String>::new(), "{path}: {text}");
        }
    }

    #[test]
    fn an_exception_that_is_not_needed_is_an_error() {
        let rule = Rule { act: "is unsafe", words: &["unsafe"], crates: &[], files: &[("crates/a/src/b.rs", "why")] };
        assert_eq!(rule.unneeded(&of_files(&[("crates/a/src/b.rs", "unsafe {}")])), []);
        assert_eq!(rule.unneeded(&of_files(&[("crates/a/src/b.rs", "quiet();")])).len(), 1);
        assert_eq!(rule.unneeded(&of_files(&[])).len(), 1);
    }
}
