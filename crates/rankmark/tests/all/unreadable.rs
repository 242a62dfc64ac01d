//! Folders that cannot be looked into are named by the commands that look for records.

use std::path::PathBuf;

use crate::place::{Place, json_lines};

/// A folder with two records, one of which nobody can open: its path is longer than a path may be.
fn deep(place: &Place) -> (PathBuf, String) {
    place.run("comm all_reduce --backend sim --bytes 1KiB --output-dir record --quiet").exits(0);
    let make = "d=$(printf 'd%.0s' $(seq 250)); while [ ${#PWD} -lt 3590 ]; do mkdir $d && cd $d; done; d=$(printf 'd%.0s' $(seq $((3839 - ${#PWD})))); mkdir $d && cd $d; cp -r \"$1\" record; \
                n=$(printf 'e%.0s' $(seq 250)); cp -r \"$1\" $n; pwd; echo $n";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", make, "sh"]).arg(place.path("record")).current_dir(place.path(""));
    let made = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    let (folder, name) = made.trim().split_once('\n').unwrap();
    (PathBuf::from(folder), name.to_owned())
}

#[test]
fn what_cannot_be_looked_into_is_named() {
    let place = Place::new();
    let (folder, name) = deep(&place);
    for (command, code) in [("history", 0), ("report", 0), ("fleet --output-dir fleet", 3)] {
        let ended = place.command(command).argument(&folder).run().exits(code);
        let said = format!("{}{}", ended.out, ended.err).replace("\n", " ");
        assert!(said.contains(&name[..40]) && said.contains("File name too long"), "{command}: {said}");
    }
    // Files are opened below a folder that is held, so this command reads even the record with too long a path.
    let listed = json_lines(&place.command("list records --json").argument(&folder).run().exits(0).out);
    let is_named = |line: &serde_json::Value| line["directory"].as_str().is_some_and(|path| path.contains(&name[..40]));
    assert!(listed.len() == 2 && listed.iter().any(is_named), "{listed:?}");
    let told = place.command("history --json").argument(&folder).run().exits(0).out;
    assert!(told.contains("File name too long"), "{told}");
}
