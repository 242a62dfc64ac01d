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
