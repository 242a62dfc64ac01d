//! `.ci/run` and `.ci/mirror` in small repositories, with a script in the place of cargo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use crate::skip;

/// What CI's commands find in the place of cargo: it says where it is, and what it was given.
const CARGO: &str = "#!/bin/sh\necho \"in $(pwd) for $*\"\n";

/// A test's folder with a repository in `one`. Removed when dropped.
struct Repository(PathBuf);

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Repository {
    /// None without git.
    fn new(name: &str) -> Option<Self> {
        if Command::new("git").arg("--version").output().is_err() {
            skip::skip("the mirror of CI", "no git");
            return None;
        }
        let place = Self(std::env::temp_dir().join(format!("xtask-ci-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&place.0);
        fs::create_dir_all(place.path("one/.ci")).unwrap();
        for script in ["run", "mirror"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci").join(script);
            fs::copy(from, place.path("one/.ci").join(script)).unwrap();
        }
        place.write("one/same", "").write("one/kept", "kept").write("one/changed", "before").write("one/removed", "");
        place.cargo(CARGO);
        place.git("init --quiet --template= one");
        place.commit("one");
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn time(&self, name: &str) -> SystemTime {
        fs::metadata(self.path(name)).unwrap().modified().unwrap()
    }

    /// Puts this script in the place of cargo.
    fn cargo(&self, script: &str) {
        fs::create_dir_all(self.path("bin")).unwrap();
        self.write("bin/cargo", script);
        self.said(Command::new("chmod").args(["755", "bin/cargo"]));
    }

    fn git(&self, arguments: &str) -> String {
        let words = arguments.split_whitespace();
        self.said(Command::new("git").args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(words))
    }

    fn commit(&self, repository: &str) {
        self.git(&format!("-C {repository} add --all"));
        self.git(&format!("-C {repository} commit --quiet --message=change"));
    }

    fn output(&self, command: &mut Command) -> Output {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.path("bin")).chain(std::env::split_paths(&path));
        command.current_dir(&self.0).env("PATH", std::env::join_paths(folders).unwrap());
        command.env("XDG_CACHE_HOME", self.path("cache")).env_remove("CARGO_TARGET_DIR").output().unwrap()
    }

    /// What a command that succeeds prints.
    fn said(&self, command: &mut Command) -> String {
        let output = self.output(command);
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Whether the script succeeds, and the line that it prints.
    fn mirror(&self, arguments: &str) -> (bool, String) {
        let output = self.output(Command::new("one/.ci/mirror").args(arguments.split_whitespace()));
        (output.status.success(), String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    fn head(&self, repository: &str) -> String {
        self.git(&format!("-C {repository} rev-parse HEAD"))
    }
}

#[test]
fn only_files_that_differ_are_written() {
    let Some(place) = Repository::new("differ") else { return };
    assert_eq!(place.mirror("one mirror"), (true, place.head("one")));
    let [same, kept, changed] = ["same", "kept", "changed"].map(|name| place.time(&format!("mirror/{name}")));
    // What a run left behind, and another clone of a later commit.
    place.write("mirror/kept", "edited").write("mirror/left", "").write("mirror/.gitignore", "*\n");
    assert!(!place.mirror(&format!("--verify {} mirror", place.head("one"))).0);
    place.git("clone --quiet one two");
    place.write("two/changed", "after").write("two/new", "");
    fs::remove_file(place.path("two/removed")).unwrap();
    place.commit("two");
    assert_eq!(place.mirror("two mirror"), (true, place.head("two")));
    assert_eq!(place.mirror(&format!("--verify {} mirror", place.head("two"))), (true, String::new()));
    assert!(!place.mirror(&format!("--verify {} mirror", place.head("one"))).0);
    let names = place.said(Command::new("ls").args(["-A", "mirror"]));
    assert_eq!(names.split_whitespace().collect::<Vec<_>>(), [".ci", ".git", "changed", "kept", "new", "same"]);
    assert_eq!((place.read("mirror/kept"), place.read("mirror/changed")), ("kept".to_owned(), "after".to_owned()));
    assert_eq!(place.time("mirror/same"), same, "cargo need not build it again");
    assert!(place.time("mirror/changed") > changed && place.time("mirror/kept") > kept, "both were written");
    // The same again writes nothing, and leaves the file that the build script watches.
    let times = || ["kept", "changed", ".git/logs/HEAD"].map(|name| place.time(&format!("mirror/{name}")));
    let before = times();
    assert!(place.mirror("two mirror").0);
    assert_eq!(times(), before);
}

#[test]
fn what_cannot_be_mirrored_is_refused() {
    let Some(place) = Repository::new("refused") else { return };
    assert!(place.mirror("one mirror").0);
    // Broken by whatever: it is made again.
    fs::remove_dir_all(place.path("mirror/.git/objects")).unwrap();
    assert_eq!(place.mirror("one mirror"), (true, place.head("one")));
    place.write("one/untracked", "");
    assert_eq!(place.mirror("one mirror"), (false, "one has changes that are not committed".to_owned()));
    fs::create_dir(place.path("none")).unwrap();
    assert_eq!(place.mirror("none mirror"), (false, "none has no commit".to_owned()));
    place.write("file", "");
    fs::remove_file(place.path("one/untracked")).unwrap();
    let (made, why) = place.mirror("one file/mirror");
    assert!(!made && why.starts_with("file/mirror could not be made a checkout of "), "{why}");
}

#[test]
fn ci_builds_in_the_mirror_unless_it_cannot() {
    let Some(place) = Repository::new("run") else { return };
    let real = |name: &str| fs::canonicalize(&place.0).unwrap().join(name).display().to_string();
    let run = || place.output(Command::new("one/.ci/run").arg("--more"));
    let lines = |output: &Output| -> Vec<String> {
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    };
    let output = run();
    let mirror = real("cache/rankmark/source");
    let commit = place.head("one");
    let begun = format!("ci: building commit {commit} in {mirror}");
    assert_eq!(lines(&output), [begun.clone(), format!("in {mirror} for xtask test --gate --more")]);
    assert!(output.status.success());
    // A second run at the same time.
    place.cargo(&format!(
        "{CARGO}[ -n \"$INNER\" ] || INNER=1 env -u CARGO_TARGET_DIR {}\nexit 3\n",
        real("one/.ci/run")
    ));
    let output = run();
    let inner = format!("ci: building in {}: {mirror} is in use or cannot be locked", real("one"));
    assert_eq!(lines(&output)[2..], [inner, format!("in {} for xtask test --gate", real("one"))]);
    assert_eq!(output.status.code(), Some(3), "that of cargo");
    // What changes while it is tested was not tested.
    place.cargo("#!/bin/sh\necho > kept\n");
    let output = run();
    assert_eq!(output.status.code(), Some(1));
    let why = format!("error: {mirror} is not commit {commit} any more\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), why);
    // A developer's own changes are tested where they are.
    place.cargo(CARGO);
    place.write("one/kept", "edited");
    let why = format!("ci: building in {0}: {0} has changes that are not committed", real("one"));
    assert_eq!(lines(&run()), [why, format!("in {} for xtask test --gate --more", real("one"))]);
}
