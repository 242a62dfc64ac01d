//! Help stays short: each command lists so many options and not more.

use crate::place::Place;

/// The most options in `-h` and in `--help`. CONTRIBUTING.md, "Options", says what a further one takes.
const MOST: &[(&str, usize, usize)] = &[
    ("run", 10, 30),
    ("profile", 32, 50),
    ("comm", 16, 67),
    ("primitive", 18, 59),
    ("train", 20, 104),
    ("memory", 19, 92),
    ("hardware", 17, 57),
    ("compare", 25, 25),
    ("report", 16, 16),
    ("import", 20, 20),
    ("validate", 10, 10),
    ("history", 8, 8),
];

/// Lines that begin with an option.
fn options(help: &str) -> usize {
    let is_option = |line: &&str| {
        let text = line.trim_start();
        line.starts_with(' ') && (text.starts_with("--") || (text.starts_with('-') && text.contains(", --")))
    };
    help.lines().filter(is_option).count()
}

#[test]
fn no_command_lists_more_options_than_it_did() {
    let place = Place::new();
    for (command, short, long) in MOST {
        for (flag, most) in [("-h", short), ("--help", long)] {
            let help = place.run(&format!("{command} {flag}")).exits(0).out;
            let listed = options(&help);
            assert!(
                listed > 0 && listed <= *most,
                "rankmark {command} {flag} lists {listed} options, at most {most}: {help}"
            );
        }
    }
}

/// What help leaves out works, and is found.
#[test]
fn fields_that_help_leaves_out_go_on_working() {
    let place = Place::new();
    let help = place.run("run --help").exits(0).out;
    assert!(help.contains("`rankmark list fields` shows all of them") && !help.contains("--ranks <N>"), "{help}");
    let fields = place.run("list fields").exits(0).out;
    let mut lines: Vec<&str> = fields.lines().collect();
    for field in ["  ranks ", "  bytes ", "  mesh "] {
        assert!(lines.iter().any(|line| line.starts_with(field)), "{field} {fields}");
    }
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "a field that benchmarks share is listed once: {fields}");
    place.run("run --max-seconds 1s --trials 7 --dry-run").exits(0);
}
