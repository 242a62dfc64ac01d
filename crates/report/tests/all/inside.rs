//! Whatever names a record has, its report stays in its folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use report::{FORMATS, LAYOUTS, Run, write_formats};

use crate::stranger::Stranger;

/// All files below a folder with what they hold, and folders and links by their names.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap();
            found
                .insert(path.display().to_string(), if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() });
            open.extend(kind.is_dir().then_some(path));
        }
    }
    found
}

/// A folder with a record's folder `deep/er/record`, and files beside it that a report has no part in.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for name in ["precious", "deep/precious", "deep/er/precious", "deep/er/record/charts"] {
            fs::create_dir_all(place.0.path().join(name)).unwrap();
        }
        for file in ["precious/logo.svg", "precious/logo.png", "deep/er/precious/logo.svg", "deep/er/x.svg"] {
            fs::write(place.0.path().join(file), "mine").unwrap();
        }
        place
    }

    fn record(&self) -> std::path::PathBuf {
        self.0.path().join("deep/er/record")
    }

    /// Makes the folders on the way of a name that leads out: `charts/all_reduce-` for `charts/all_reduce-/../x`.
    fn with_steps_to(&self, name: &str) {
        if let Some((step, _)) = name.split_once('/').filter(|(step, _)| !step.contains('\0') && step.len() < 100) {
            for before in ["all_reduce-", "training-", "profile-", "collective-", ""] {
                let _ = fs::create_dir_all(self.record().join("charts").join(format!("{before}{step}")));
                let _ = fs::create_dir_all(self.record().join(format!("{before}{step}")));
            }
        }
    }

    /// What is not the record's.
    fn outside(&self) -> BTreeMap<String, Vec<u8>> {
        let own = self.record().display().to_string();
        tree(self.0.path()).into_iter().filter(|(path, _)| !path.starts_with(&own)).collect()
    }
}

fn write_all(run: &Run, to: &Path) -> usize {
    let all: Vec<_> = FORMATS.iter().chain(LAYOUTS).copied().collect();
    // A layout that has no case of its kind is an error; the others are written all the same.
    all.iter().map(|format| write_formats(run, to, &[*format]).map_or(0, |written| written.files.len())).sum()
}

#[test]
fn a_stem_that_leads_out_writes_nothing_there() {
    let (place, stranger) = (Place::new(), Stranger::new());
    let text = "/../../../precious/logo";
    place.with_steps_to(text);
    // Of charts and of the operation, and of tables and the case of traces.
    for names in [&["stem"][..], &["op", "case", "name", "backend", "id"]] {
        let other = names.iter().fold(stranger.clone(), |stranger, name| stranger.with_member(name, text));
        let run = other.read_any(&place.record());
        let before = place.outside();
        assert!(write_all(&run, &place.record()) > 10, "{names:?}");
        assert_eq!(place.outside(), before, "{names:?}");
    }
}

/// Names as somebody could think of them, and others.
fn name() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 11] =
        ["../x", "/../../../precious/logo", "/../../x", "/tmp/x", "..", ".", "", "-rf", "a\0b", "a\nb", "\u{202E}gvs"];
    const PIECES: [&str; 12] = ["..", "/", "\\", "\0", "\n", "~", "-", " ", "precious/logo", "\u{2044}", "é", "."];
    let piece = proptest::sample::select(&PIECES[..]);
    prop_oneof![
        3 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned),
        3 => proptest::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat()),
        1 => "\\PC{0,40}",
        1 => (200_usize..5000).prop_map(|length| "/..".repeat(length)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every text of the record that names something, at once: operations, charts, benchmarks, backends, cases, tables.
    #[test]
    fn names_of_a_record_lead_nowhere(name in name(), in_front in any::<bool>(), all in any::<bool>()) {
        let (place, (stranger, free)) = (Place::new(), Stranger::with_free_texts());
        place.with_steps_to(&name);
        let other = |text: &String| if in_front { format!("{name}{text}") } else { format!("{text}{name}") };
        let before = place.outside();
        // All of them, or those alone that are parts of names, so that the others still make charts.
        let parts = ["all_reduce", "busbw", "throughput", "shm", "kernels", "collective"].map(str::to_owned);
        let texts = if all { &free[..] } else { &parts };
        let texts = texts.iter().map(|text| (text.clone(), other(text))).collect();
        let run = stranger.with(&texts).read(&place.record()).expect("the reader takes any text there");
        prop_assert!(write_all(&run, &place.record()) > 10);
        prop_assert_eq!(place.outside(), before);
    }
}
