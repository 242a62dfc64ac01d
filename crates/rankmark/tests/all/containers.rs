//! The container images of `packaging/container`: what they say of the user, the folders and the root file system is true of
//! the program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::{Place, statuses};
use crate::sandbox::{Sandbox, USER};
use crate::skip;

const FILES: [&str; 2] = ["Containerfile.cuda", "Containerfile.pytorch"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/container")
}

/// The instructions of a file, each with its lines joined.
fn instructions(file: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let split = |line: &str| line.split_once(' ').map(|(name, rest)| (name.to_owned(), rest.trim().to_owned()));
    joined.lines().filter_map(split).collect()
}

/// The last instruction of this name.
fn last(file: &str, name: &str) -> String {
    let found = instructions(file).into_iter().rev().find(|(own, _)| own == name);
    found.unwrap_or_else(|| panic!("{file} has no {name}")).1
}

/// The sandbox as the image starts it: its user, its variables, its folder.
fn image<'a>(place: &'a Place, file: &str, test: &str) -> Option<Sandbox<'a>> {
    std::fs::create_dir_all(place.path("results")).unwrap();
    let mut sandbox = Sandbox::new(place, test)?;
    for (_, line) in instructions(file).iter().filter(|(name, _)| name == "ENV") {
        let (name, value) = line.split_once('=').unwrap();
        sandbox = sandbox.variable(name, value);
    }
    let folder = last(file, "WORKDIR");
    Some(sandbox.mount(place.path("results"), &folder, true).in_folder(&folder))
}

/// The program of the image with these arguments.
fn words(file: &str, arguments: &str) -> Vec<String> {
    let entry: Vec<String> = serde_json::from_str(&last(file, "ENTRYPOINT")).unwrap();
    entry.into_iter().chain(arguments.split_whitespace().map(str::to_owned)).collect()
}

const FIRST: &str =
    "comm all_reduce --ranks 2 --bytes 1KiB --iters 6 --warmup 1 --trials 1 --limits false --output-dir r";

#[test]
fn the_program_runs_as_any_user_on_a_root_that_is_read_only() {
    for (file, unknown) in [(FILES[0], false), (FILES[1], true)] {
        let place = Place::new();
        let Some(sandbox) = image(&place, file, "the program in a container") else { return };
        let sandbox = if unknown { sandbox.with_unknown_user(4711) } else { sandbox };
        let sh = |line: &str| sandbox.command("", &["sh".to_owned(), "-c".to_owned(), line.to_owned()]).run();
        let user = if unknown { "4711" } else { "10001" };
        assert_eq!(sh("id -u").exits(0).out.trim(), user);
        for name in ["/etc/x", "/usr/x", "/opt/rankmark/x", "/x"] {
            assert!(sh(&format!("touch {name}")).exits(1).err.contains("Read-only file system"), "{name}");
        }
        let run = |arguments: &str| sandbox.command("", &words(file, arguments)).run();
        if unknown {
            let said = run("validate");
            assert!([Some(0), Some(1)].contains(&said.status.code()) && said.out.contains("shm"), "{said:?}");
        }
        let said = run(FIRST).exits(0);
        assert!(said.out.contains("all_reduce"), "{said:?}");
        assert_eq!(statuses(&place.cases("results/r")), [1, 0, 0, 0]);
        run("report r").exits(0);
        assert!(place.read("results/r/report.html").contains("all_reduce"));
        // Without a name for its record, below the folder where it starts.
        run(FIRST.trim_end_matches(" --output-dir r")).exits(0);
        assert_eq!(std::fs::read_dir(place.path("results/results")).unwrap().count(), 1);
    }
}

#[test]
fn ranks_of_a_launcher_are_told_where_to_connect_or_why_not() {
    let place = Place::new();
    let Some(mut sandbox) = image(&place, FILES[1], "ranks of a launcher in a container") else { return };
    // What torchrun says to the first of two ranks.
    for (name, value) in [("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "2")] {
        sandbox = sandbox.variable(name, value);
    }
    sandbox = sandbox.variable("MASTER_ADDR", "localhost").variable("MASTER_PORT", "1");
    sandbox = sandbox.variable("RANKMARK_RENDEZVOUS_DIR", "/usr");
    let ended = sandbox.command("", &words(FILES[1], FIRST)).run();
    ended.refuses(&["/usr/rankmark: Read-only file system", "RANKMARK_RENDEZVOUS_DIR=/PATH names a folder"]);
}

#[test]
fn images_have_a_user_a_label_and_no_key() {
    for file in FILES {
        assert_eq!(last(file, "USER"), format!("{USER}:{USER}"), "{file}");
        let user = format!("useradd --uid {USER} --gid {USER} ");
        let runs: String =
            instructions(file).into_iter().filter(|(name, _)| name == "RUN").map(|(_, line)| line).collect();
        assert!(runs.contains(&user), "{file} makes that user");
        // The package of sshd makes them when it is installed.
        let install = runs.find("openssh-server").unwrap();
        assert!(runs[install..].contains("rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*"), "{file}");
        let label = last(file, "LABEL");
        let version = format!("org.opencontainers.image.version=\"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(label.contains(&version) && label.contains("image.licenses=\"MIT OR Apache-2.0\""), "{label}");
    }
}

#[test]
fn hadolint_has_no_complaint() {
    let program = std::env::var_os("RANKMARK_TEST_HADOLINT").unwrap_or_else(|| "hadolint".into());
    if !Command::new(&program).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skip::skip("hadolint of container files", "no hadolint (RANKMARK_TEST_HADOLINT names one)");
    }
    let check = |path: &Path| Command::new(&program).arg(path).output().unwrap();
    for file in FILES {
        let output = check(&folder().join(file));
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stdout));
    }
    // It is not satisfied with everything.
    let place = Place::new();
    place.write("Containerfile", "FROM debian\nRUN cd /tmp && apt-get install vim\n");
    assert!(!check(&place.path("Containerfile")).status.success());
}
