//! `rankmark pack`: one file to send, with and without names.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::place::{Ended, Place};

/// With the folder of home folders, which no text of this repository may name (`cargo xtask tidy`).
fn at_home(text: &str) -> String {
    text.replace("HOME/", concat!("/ho", "me/"))
}

/// A record of this machine, with a trace and a note that names the user.
fn recorded(place: &Place) -> String {
    let plan = "experiment: sent\nprofiling: {enabled: true}\ncases:\n  - benchmark: collective\n    op: all_reduce\n    \
                bytes: [1KiB, 4KiB, 64KiB]\n    max_seconds: 0.02s\n    env: [WORK=HOME/marie42/x]\n";
    place.write("plan.yaml", at_home(plan));
    let note = ["--note", &at_home("by marie42 in HOME/marie42/work, for jean.b of HOME/jean.b")];
    let mut starting = place.command("run plan.yaml --trials 1 --output-dir sent");
    starting.command.args(note);
    starting.run().exits(0);
    place.run_file("sent")["machine"]["host"].as_str().unwrap().to_owned()
}

/// The files of an archive, by path.
fn unpacked(place: &Place, archive: &str) -> BTreeMap<String, Vec<u8>> {
    let file = std::fs::File::open(place.path(archive)).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry: tar::Entry<'_, flate2::read::GzDecoder<std::fs::File>> = entry.unwrap();
        assert!(entry.header().entry_type().is_file() && entry.header().uid().unwrap() == 0);
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().display().to_string(), content)
    };
    archive.entries().unwrap().map(read).collect()
}

/// Packs as a user of this name and home.
fn pack_as(place: &Place, arguments: &str, user: &str, home: &str) -> Ended {
    let mut starting = place.command(arguments);
    starting.command.env("USER", user).env("LOGNAME", user).env("HOME", home).env_remove("SUDO_USER");
    starting.run()
}

#[test]
fn a_record_is_packed_whole_and_nothing_else() {
    let place = Place::new();
    recorded(&place);
    place.write("sent/passwords.txt", "secret").write("secret.png", "secret");
    symlink(place.path("secret.png"), place.path("sent/charts/linked.png")).unwrap();
    std::fs::remove_file(place.path("sent/report.html")).unwrap();
    symlink("/etc/passwd", place.path("sent/report.html")).unwrap();
    let ended = place.run("pack sent").exits(0);
    let files = unpacked(&place, "sent.tar.gz");
    for name in ["run.json", "cases.jsonl", "samples.jsonl", "report.md", "cases.csv"] {
        assert_eq!(
            files[&format!("sent/{name}")],
            std::fs::read(place.path(&format!("sent/{name}"))).unwrap(),
            "{name}"
        );
    }
    let of = |folder: &str| files.keys().filter(|path| path.starts_with(folder)).count();
    assert_eq!((of("sent/trace/"), of("sent/charts/") >= 2), (3, true), "{files:?}");
    assert!(files.values().all(|content| content != b"secret"), "{:?}", files.keys());
    for line in
        ["charts/linked.png: a symbolic link", "report.html: a symbolic link", "passwords.txt: not a file of a record"]
    {
        assert!(ended.out.contains(&format!("left out  {line}\n")), "{}", ended.out);
    }
    // The same bytes again; nothing is overwritten.
    place.run("pack sent --output again.tgz").exits(0);
    assert!(std::fs::read(place.path("sent.tar.gz")).unwrap() == std::fs::read(place.path("again.tgz")).unwrap());
    place.run("pack sent").refuses(&["sent.tar.gz exists already", "-o FILE"]);
    place.run("pack temporary").refuses(&["temporary"]);
    assert!(!place.path("temporary.tar.gz").exists());
}

#[test]
fn a_redacted_record_reads_clean_and_names_nobody() {
    let place = Place::new();
    let host = recorded(&place);
    let ended = pack_as(&place, "pack sent --redact -o out.tar.gz", "marie42", &at_home("HOME/marie42")).exits(0);
    let files = unpacked(&place, "out.tar.gz");
    for (path, content) in &files {
        let mut text = content.clone();
        if path.ends_with(".gz") {
            text.clear();
            flate2::read::GzDecoder::new(content.as_slice()).read_to_end(&mut text).unwrap();
        }
        let text = String::from_utf8(text).unwrap_or_else(|_| panic!("{path} is not text"));
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').collect();
        let is_word = words.iter().any(|word| word.trim_matches('.') == host);
        // A short host name may stand within other words.
        assert!(!is_word && (host.len() < 4 || !text.contains(&host)), "{host} is in {path}");
        for name in ["marie42", "jean.b"] {
            assert!(!text.contains(name), "{name} is in {path}");
        }
        std::fs::create_dir_all(place.path(path).parent().unwrap()).unwrap();
        // Over the record itself: only the packed files are read from here on.
        std::fs::write(place.path(path), content).unwrap();
    }
    assert!(ended.out.contains("charts/") && ended.out.contains("not a text: names in it"), "{}", ended.out);
    for line in [
        "user name `marie42` by `user-1`: ",
        "home folder `HOME/marie42` by `HOME/user-1`: ",
        "user name `jean.b` by `user-2`: ",
    ] {
        assert!(ended.out.contains(&at_home(&format!("replaced  {line}"))), "{}", ended.out);
    }
    assert!(ended.out.contains(&format!("replaced  host name `{host}` by `host-1`: ")), "{}", ended.out);
    let file = place.run_file("sent");
    assert_eq!(file["machine"]["host"], "host-1");
    assert_eq!(file["labels"]["note"], at_home("by user-1 in HOME/user-1/work, for user-2 of HOME/user-2").as_str());
    let again = place.run("report sent").exits(0);
    assert_eq!(again.err, "", "no line is damaged");
    assert!(place.read("sent/report.md").contains(&at_home("by user-1 in HOME/user-1/work")));
    // Lines that name somebody have right checksums again: without any they would read clean, too.
    for line in place.read("sent/cases.jsonl").lines() {
        assert!(line.contains(&at_home("WORK=HOME/user-1/x")) && line.contains(",\"crc32\":\""), "{line}");
    }
    assert_eq!(place.cases("sent").len(), 3);
}

#[test]
fn a_home_folder_is_known_however_it_is_written() {
    let place = Place::new();
    let run = "comm all_reduce --backend sim --ranks 2 --bytes 1KiB --trials 1 --quiet --output-dir sent --note";
    place.command(run).argument("in /data/marie42/work").run().exits(0);
    let ended = pack_as(&place, "pack sent --redact -o a.tar.gz", "marie42", "/data/marie42/").exits(0);
    let line = at_home("replaced  home folder `/data/marie42` by `HOME/user-1`: ");
    assert!(ended.out.contains(&line), "{}", ended.out);
    // A container's user may have neither a name nor a home.
    let mut starting = place.command("pack sent --redact -o b.tar.gz");
    starting.command.env_remove("USER").env_remove("LOGNAME").env_remove("SUDO_USER").env("HOME", "/");
    let ended = starting.run().exits(0);
    assert!(!ended.out.contains("``"), "{}", ended.out);
}

#[test]
fn a_damaged_line_stays_damaged_and_tells_no_name() {
    let place = Place::new();
    let host = recorded(&place);
    let text = place.read("sent/cases.jsonl").replacen("\"status\":\"ok\"", &format!("\"status\":\"{host}\""), 1);
    place.write("sent/cases.jsonl", text);
    pack_as(&place, "pack sent --redact -o out.tar.gz", "marie42", &at_home("HOME/marie42")).exits(0);
    let cases = &unpacked(&place, "out.tar.gz")["sent/cases.jsonl"];
    let cases = std::str::from_utf8(cases).unwrap();
    assert!(cases.contains("\"status\":\"host-1\""), "{cases}");
    place.write("sent/cases.jsonl", cases);
    let ended = place.run("report sent").exits(0);
    assert!(ended.err.contains("its checksum does not match"), "{}", ended.err);
}

#[test]
fn a_host_that_is_a_word_of_records_is_refused() {
    let place = Place::new();
    recorded(&place);
    let mut file: Value = place.run_file("sent");
    file["machine"]["host"] = "shm".into();
    place.write("sent/run.json", file.to_string());
    place.run("pack sent --redact").refuses(&["the host name `shm` is also a word of records"]);
    assert!(!place.path("sent.tar.gz").exists());
    place.run("pack sent").exits(0);
}

#[test]
fn a_packed_record_is_a_record_everywhere() {
    let place = Place::new();
    let sim = "comm all_reduce --backend sim --ranks 2 --bytes 1KiB,4KiB --quiet --output-dir";
    for name in ["a", "b"] {
        place.run(&format!("{sim} {name}")).exits(0);
        std::fs::create_dir_all(place.path(&format!("{name}/charts"))).unwrap();
        // Many files whose names come before that of the run file.
        for chart in 0..70 {
            place.write(&format!("{name}/charts/{chart}.svg"), "<svg/>");
        }
        place.run(&format!("pack {name} -o {name}.pack")).exits(0);
    }
    let [a, b] = ["a", "b"].map(|name| place.read(&format!("{name}/cases.jsonl")));
    for name in ["a", "b"] {
        std::fs::remove_dir_all(place.path(name)).unwrap();
    }
    let reported = place.run("report a.pack --format markdown").exits(0);
    assert!(reported.err.contains("unpacked  a.pack into a"), "{}", reported.err);
    assert_eq!(place.read("a/cases.jsonl"), a);
    let compared = place.run("compare a.pack b.pack");
    assert!(compared.status.code() != Some(2) && compared.out.contains("all_reduce"), "{compared:?}");
    assert_eq!(place.read("b/cases.jsonl"), b);
    let again = place.run("import a.pack").exits(0);
    assert!(again.out.contains("a.pack is a packed record of 2 cases\nrecord   a\n"), "{}", again.out);
    assert!(!again.err.contains("unpacked"), "it is there: {}", again.err);
    place.run("import b.pack --output-dir c").exits(0);
    assert_eq!(place.read("c/cases.jsonl"), b);
    place.run("import b.pack --output-dir c").refuses(&["c exists already"]);
    place.run("history a.pack").exits(0);
    assert!(place.run("list records b.pack").exits(0).out.contains('b'));
    // Another record has the name that the archive would be unpacked into.
    std::fs::copy(place.path("b.pack"), place.path("a.tgz")).unwrap();
    place.run("report a.tgz").refuses(&["a exists already, but is not the record of a.tgz"]);
    assert_eq!(place.read("a/cases.jsonl"), a);
}

#[test]
fn a_hostile_archive_leaves_its_folder_alone() {
    let place = Place::new();
    place.run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --quiet --output-dir a").exits(0);
    let file = std::fs::File::create(place.path("x.pack")).unwrap();
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast()));
    let mut put = |path: &str, kind: tar::EntryType, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_entry_type(kind);
        // A path that the library would refuse to write.
        let name = header.as_gnu_mut().unwrap();
        name.name[..path.len()].copy_from_slice(path.as_bytes());
        if kind == tar::EntryType::Symlink {
            header.set_link_name("/etc").unwrap();
        }
        header.set_cksum();
        archive.append(&header, content).unwrap();
    };
    let run = std::fs::read(place.path("a/run.json")).unwrap();
    let cases = std::fs::read(place.path("a/cases.jsonl")).unwrap();
    put("x/run.json", tar::EntryType::Regular, &run);
    put("x/cases.jsonl", tar::EntryType::Regular, &cases);
    put("x/../../outside.json", tar::EntryType::Regular, b"no");
    put("x/passwords.txt", tar::EntryType::Regular, b"no");
    put("x/charts", tar::EntryType::Symlink, b"");
    put("x/charts/passwd.svg", tar::EntryType::Regular, b"drawn");
    archive.into_inner().unwrap().finish().unwrap();
    place.run("report x.pack --format markdown").exits(0);
    let found: Vec<String> = std::fs::read_dir(place.path("x"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(found.contains(&"run.json".to_owned()) && !found.contains(&"passwords.txt".to_owned()), "{found:?}");
    assert!(!place.path("outside.json").exists() && !place.path("../outside.json").exists());
    assert!(place.path("x/charts").symlink_metadata().unwrap().is_dir(), "no link");
}
