//! Completion scripts: what a shell offers for a line that is typed so far.

use std::process::Command;

use crate::place::Place;
use crate::skip;

/// What bash offers after this line, its last word being completed. None without bash 4.
fn offered(place: &Place, line: &str) -> Option<Vec<String>> {
    // Words as readline splits them: at spaces, and at `=`.
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match word.split_once('=') {
            Some((name, value)) => words.extend([name.to_owned(), "=".to_owned(), value.to_owned()]),
            None => words.push(word.to_owned()),
        }
    }
    let [.., previous, current] = &words[..] else { panic!("two words at least: {line}") };
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "((BASH_VERSINFO[0] >= 4)) || exit 9; source ./rankmark.bash || exit 1\n\
         compopt() {{ :; }} # which bash allows while it completes only\n\
         read -ra said <<< \"$(complete -p rankmark)\"\n\
         for ((i = 0; i < ${{#said[@]}}; i++)); do [[ ${{said[i]}} == -F ]] && function=${{said[i + 1]}}; done\n\
         COMP_WORDS=({}); COMP_CWORD={}\n\
         $function rankmark '{current}' '{previous}'\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let output = Command::new("bash").args(["--norc", "-c", &script]).current_dir(place.path(".")).output();
    let Some(output) = output.ok().filter(|output| output.status.code() != Some(9)) else {
        skip::skip("completion by bash", "bash 4 is not installed");
        return None;
    };
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let mut offers: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    offers.sort();
    Some(offers)
}

#[test]
fn bash_completes_values() {
    let place = Place::new();
    place.write("rankmark.bash", place.run("completions bash").exits(0).out);
    for (line, expected) in [
        ("rankmark val", &["validate"][..]),
        ("rankmark comm all_r", &["all_reduce"]),
        ("rankmark comm all_reduce,all_g", &["all_reduce,all_gather"]),
        ("rankmark comm all_reduce --backend s", &["shm", "sim"]),
        ("rankmark comm all_reduce --backend shm,s", &["shm,shm", "shm,sim"]),
        ("rankmark comm all_reduce --backend=re", &["reference"]),
        ("rankmark comm all_reduce --dtype b", &["bf16"]),
        ("rankmark comm all_reduce --dtype f32,f64,b", &["f32,f64,bf16"]),
        ("rankmark train --model gpt2-m", &["gpt2-medium", "gpt2-mini"]),
        ("rankmark list mod", &["models"]),
        ("rankmark comm all_reduce --in-place ", &["false", "true"]),
    ] {
        let Some(offers) = offered(&place, line) else { return };
        assert_eq!(offers, expected, "{line}");
    }
    // Plans are files.
    place.write("plan-of-mine.yaml", "");
    let Some(files) = offered(&place, "rankmark run --config plan-of") else { return };
    assert_eq!(files, ["plan-of-mine.yaml"]);
}

/// What a program prints with these arguments. None where it is not installed.
fn printed(place: &Place, program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(place.path(".")).output();
    let Some(output) = output.ok().filter(|output| output.status.code() != Some(9)) else {
        skip::skip(&format!("completion by {program}"), &format!("{program} is not installed"));
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Lines with one word that they can be completed to.
const COMPLETED: [(&str, &str); 7] = [
    ("rankmark val", "validate"),
    ("rankmark comm all_r", "all_reduce"),
    ("rankmark comm all_reduce,all_g", "all_reduce,all_gather"),
    ("rankmark comm all_reduce --backend re", "reference"),
    ("rankmark comm all_reduce --backend shm,re", "shm,reference"),
    ("rankmark comm all_reduce --dtype f32,b", "f32,bf16"),
    ("rankmark train --model gpt2-me", "gpt2-medium"),
];

#[test]
fn fish_completes_values() {
    let place = Place::new();
    place.write("rankmark.fish", place.run("completions fish").exits(0).out);
    for (line, expected) in COMPLETED {
        let script = format!("source rankmark.fish; complete -C '{line}'");
        let Some(offers) = printed(&place, "fish", &["--no-config", "-c", &script]) else { return };
        let words: Vec<&str> = offers.lines().map(|offer| offer.split('\t').next().unwrap_or("")).collect();
        assert_eq!(words, [expected], "{line}");
    }
    let script = "source rankmark.fish; complete -C 'rankmark comm all_reduce --backend=shm,s'";
    let Some(several) = printed(&place, "fish", &["--no-config", "-c", script]) else { return };
    assert_eq!(several.lines().collect::<Vec<_>>(), ["--backend=shm,shm", "--backend=shm,sim"]);
}

#[test]
fn zsh_completes_values() {
    let place = Place::new();
    place.write("rankmark.zsh", place.run("completions zsh").exits(0).out);
    place.write("lines", COMPLETED.map(|(line, _)| format!("{line}\n")).concat());
    let Some(said) = printed(&place, "zsh", &["-f", "-c", include_str!("completions.zsh")]) else { return };
    let said: Vec<&str> = said.lines().map(str::trim_end).collect();
    assert_eq!(said.len(), COMPLETED.len(), "{said:?}");
    for ((line, expected), said) in COMPLETED.into_iter().zip(said) {
        // Behind one of a list the next may follow.
        assert_eq!(said.rsplit(' ').next().unwrap().trim_end_matches(','), expected, "{line}");
    }
}

#[test]
fn every_script_offers_values() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Place::new().run(&format!("completions {shell}")).exits(0).out;
        for word in ["all_to_allv", "reference", "bf16", "bert-large", "one_way"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn what_completion_offers_is_not_all_that_is_taken() {
    let place = Place::new();
    let line =
        "comm All-Reduce,BROADCAST --backend SHM --dtype f32,BF16 --bytes 1KiB --max-seconds 0.01s --output-dir out";
    place.run(line).exits(0);
    assert_eq!(place.cases("out").len(), 4);
    let help = place.run("comm --help").exits(0).out;
    assert!(!help.contains("[possible values"), "words stand in help once: {help}");
    place.run("comm all_reduce --dtype f33").refuses(&["`dtype` does not take `f33`", "did you mean `f32`?"]);
}
