//! Help stays short: each command lists so many options and not more.

use crate::place::Place;

/// The most options in `-h` and in `--help`. CONTRIBUTING.md, "Options", says what a further one takes.
const MOST: &[(&str, usize, usize)] = &[
    ("run", 7, 21),
    ("profile", 29, 40),
    ("comm", 15, 83),
    ("primitive", 18, 68),
    ("train", 20, 112),
    ("memory", 19, 97),
    ("hardware", 16, 61),
    ("kernel", 15, 58),
    ("calibrate", 11, 11),
    ("startup", 16, 56),
    ("interference", 19, 61),
    ("compare", 23, 23),
    ("report", 12, 12),
    ("import", 10, 10),
    ("validate", 8, 8),
    ("history", 5, 5),
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

/// The first page of help is for somebody who looks for a command.
#[test]
fn commands_stand_in_groups_and_rare_ones_below_them() {
    let place = Place::new();
    for flag in ["--help", "-h", "help"] {
        let help = place.run(flag).exits(0).out;
        let places: Vec<Option<usize>> =
            ["Measure:\n", "Explain:\n", "Compare and share:\n", "Set up:\n", "More commands: "]
                .map(|heading| help.find(heading))
                .to_vec();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{places:?} {help}");
        let listed = |name: &str| help.lines().any(|line| line.starts_with(&format!("  {name} ")));
        for name in ["run", "comm", "hardware", "profile", "report", "compare", "import", "validate", "gen-config"] {
            assert!(listed(name), "{name}: {help}");
        }
        for name in ["merge", "man", "schema", "completions"] {
            assert!(!listed(name), "{name}: {help}");
            assert!(help.split_once("More commands: ").unwrap().1.contains(name), "{name}: {help}");
            place.run(&format!("{name} --help")).exits(0);
        }
    }
    assert!(options(&place.run("run -h").exits(0).out) <= 12);
}
