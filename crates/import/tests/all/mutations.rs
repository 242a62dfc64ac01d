//! Each reader over mutations of its own samples: no figure may become another one without a word.
//!
//! Every format of results is here by its samples. `RANKMARK_TEST_FULL` takes every cut and width, else some of them are taken.

use std::collections::{BTreeMap, BTreeSet};

use import::{Content, Results, Source};

use crate::{samples, told};

/// What a reader says of a case: the times of its trials, and its metrics by name.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    times: Vec<f64>,
    metrics: Vec<(&'static str, f64)>,
}

/// What a reader says of a file: cases by their fields, and its sentences about how it was read.
struct Read {
    cases: Vec<(String, Case)>,
    words: BTreeSet<String>,
}

fn read(source: &Source, format: &str) -> Option<Read> {
    let named = import::format(format).unwrap();
    let found = import::read(source, Some(named)).ok()?;
    let Content::Results(all) = found.content else { return None };
    let said = |results: &Results| {
        let runs = format!("{} runs", results.runs());
        let cut = format!("cut: {}", results.cut);
        [results.notes.clone(), results.all_omitted(), vec![runs, cut]].concat()
    };
    let cases = all.iter().flat_map(Results::shapes).map(|(shape, figures)| {
        let case = Case {
            times: figures.iter().map(|one| one.time_s).collect(),
            metrics: figures
                .iter()
                .filter_map(|one| one.details.as_ref())
                .flat_map(|one| one.metrics.clone())
                .collect(),
        };
        (format!("{shape:?}"), case)
    });
    Some(Read {
        cases: cases.collect(),
        words: all.iter().flat_map(said).chain(source.notes().to_vec()).chain(source.unfinished()).collect(),
    })
}

/// What is wrong in what was read of a mutation; None where every figure is one of the originals, or something is said.
fn fault(mutated: &Read, originals: &[&Read]) -> Option<String> {
    // Where no figure is left, the record is refused.
    if mutated.cases.is_empty()
        || !mutated.words.iter().all(|word| originals.iter().any(|one| one.words.contains(word)))
    {
        return None;
    }
    let known = |key: &str, case: &Case| {
        let is = |(other, original): &&(String, Case)| {
            other == key
                && case.times.iter().all(|time| original.times.contains(time))
                && case.metrics.iter().all(|metric| original.metrics.contains(metric))
        };
        originals.iter().any(|original| original.cases.iter().any(|one| is(&one)))
    };
    if let Some((key, case)) = mutated.cases.iter().find(|(key, case)| !known(key, case)) {
        return Some(format!("{key} became {case:?}"));
    }
    let keys = |read: &Read| read.cases.iter().map(|(key, _)| key.clone()).collect::<BTreeSet<_>>();
    let found = keys(mutated);
    let is_missing = !originals.iter().any(|original| keys(original).is_subset(&found));
    is_missing.then(|| format!("of {} cases, {} are left", keys(originals[0]).len(), found.len()))
}

/// The text with its figures times three, but for counters: what another run of the same program may print.
fn scaled(text: &str) -> String {
    let number = |word: &str| {
        let (_, decimals) = word.split_once('.')?;
        let value: f64 = word.parse().ok()?;
        Some(format!("{:.*}", decimals.len(), value * 3.0))
    };
    let mut kept = String::new();
    for part in text.split_inclusive(|letter: char| !(letter.is_ascii_digit() || letter == '.')) {
        let end = part.trim_end_matches(|letter: char| !(letter.is_ascii_digit() || letter == '.')).len();
        let before = kept.chars().next_back().is_some_and(|letter| letter.is_alphanumeric() || ":-_".contains(letter))
            || ["step=", "samples="].iter().any(|counter| kept.ends_with(counter));
        match number(&part[..end]).filter(|_| !before) {
            Some(number) => kept += &(number + &part[end..]),
            None => kept += part,
        }
    }
    kept
}

/// Each line changed by a function.
fn by_line(text: &str, change: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| change(line) + "\n").collect()
}

fn with_decimal_commas(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let is_digit = |at: usize| letters.get(at).is_some_and(char::is_ascii_digit);
    let comma = |(at, letter): (usize, &char)| match *letter {
        '.' if at > 0 && is_digit(at - 1) && is_digit(at + 1) => ',',
        other => other,
    };
    letters.iter().enumerate().map(comma).collect()
}

fn interleaved(a: &str, b: &str) -> String {
    let (mut a, mut b) = (a.lines(), b.lines());
    let mut text = String::new();
    loop {
        let pair = (a.next(), b.next());
        if pair == (None, None) {
            return text;
        }
        for line in [pair.0, pair.1].into_iter().flatten() {
            text += line;
            text.push('\n');
        }
    }
}

/// Mutations that keep what is printed, by name.
fn of_ways(text: &str) -> Vec<(String, String)> {
    let html = |line: &str| line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;");
    let mut all = vec![
        ("CRLF".to_owned(), text.replace('\n', "\r\n")),
        ("tabs".to_owned(), by_line(text, |line| line.replace("  ", "\t"))),
        ("colours".to_owned(), by_line(text, |line| format!("\u{1b}[32m{line}\u{1b}[0m"))),
        ("no-break spaces".to_owned(), text.replace(' ', "\u{a0}")),
        ("a fence".to_owned(), format!("```\n{text}```\n")),
        ("quotation marks".to_owned(), by_line(text, |line| format!("> {line}"))),
        ("HTML escapes".to_owned(), by_line(text, html)),
        ("breaks".to_owned(), by_line(text, |line| format!("{line}<br>"))),
        ("decimal commas".to_owned(), with_decimal_commas(text)),
    ];
    for prefix in ["[1,0]<stdout>:", "0: ", "node-a: ", "[default0]:", "2026-02-16T10:00:00.123456789Z stdout F "] {
        all.push((format!("the prefix `{prefix}`"), by_line(text, |line| format!("{prefix}{line}"))));
    }
    all
}

/// Cuts within the last two lines, and of all lines at a width.
fn of_cuts(text: &str, step: usize) -> Vec<(String, String)> {
    let starts: Vec<usize> = text.trim_end().match_indices('\n').map(|(at, _)| at + 1).collect();
    let from = starts.len().checked_sub(2).map_or(0, |at| starts[at]);
    // A file that ends with a line is whole, however short; blanks of a next one are not a part of it.
    let holds_a_part = |at: &usize| {
        let last = text[..*at].rsplit('\n').next().unwrap_or_default();
        last.chars().any(char::is_alphanumeric)
    };
    let is_between = |at: &usize| text.is_char_boundary(*at);
    let bytes = (from..text.len()).filter(is_between).filter(holds_a_part).step_by(step);
    let mut all: Vec<(String, String)> = bytes.map(|at| (format!("cut at byte {at}"), text[..at].to_owned())).collect();
    all.extend((20..=200).step_by(step).map(|width| {
        let cut = by_line(text, |line| line.chars().take(width).collect());
        (format!("cut at {width} columns"), cut)
    }));
    all
}

/// What is wrong with a format's mutations: `FILE, MUTATION: WHAT`.
fn faults(format: &str, step: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in std::fs::read_dir(samples(format)).unwrap() {
        let path = file.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let name = path.file_name().unwrap().display().to_string();
        let source = |text: &str| {
            let with = told(Source::load(&path).unwrap());
            let given = ["ranks", "op"].map(|name| with.given(name).map(|value| (name, value.to_owned())));
            let source = Source::new(name.clone(), text.as_bytes().to_vec()).ok()?;
            Some(given.into_iter().flatten().fold(source, |source, (name, value)| source.with_given(name, value)))
        };
        let Some(original) = source(&text).and_then(|source| read(&source, format)) else { continue };
        let mut check = |what: &str, mutated: &str, originals: &[&Read]| {
            let read = source(mutated).and_then(|source| read(&source, format));
            let fault = read.and_then(|read| fault(&read, originals));
            wrong.extend(fault.map(|fault| format!("{format}/{name}, {what}: {fault}")));
        };
        for (what, mutated) in of_ways(&text).into_iter().chain(of_cuts(&text, step)) {
            check(&what, &mutated, &[&original]);
        }
        let other = scaled(&text);
        if let Some(scaled) = source(&other).and_then(|source| read(&source, format)) {
            check("two runs joined", &format!("{text}{other}"), &[&original, &scaled]);
            check("two runs under headings", &format!("## a\n{text}\n## b\n{other}"), &[&original, &scaled]);
            check("two runs at once", &interleaved(&text, &other), &[&original, &scaled]);
        }
    }
    wrong
}

#[test]
fn no_figure_becomes_another_one_without_a_word() {
    #[allow(clippy::disallowed_methods, reason = "variables say what is tested")]
    let step = if std::env::var_os("RANKMARK_TEST_FULL").is_some() { 1 } else { 7 };
    let threads: Vec<_> =
        import::FORMATS.iter().map(|format| std::thread::spawn(move || faults(format.name(), step))).collect();
    let wrong: Vec<String> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    wrong.iter().for_each(|fault| *kinds.entry(fault.split(['/', ':']).next().unwrap()).or_default() += 1);
    let shown: Vec<String> = wrong.iter().take(40).map(|fault| fault.chars().take(400).collect()).collect();
    assert!(wrong.is_empty(), "{} faults {kinds:?}:\n{}", wrong.len(), shown.join("\n"));
}
