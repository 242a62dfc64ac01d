//! `profile.json`: it reads back as it was written, and what is not such a file is refused with the reason.

use std::fs;
use std::path::Path;

use record::{
    Blame, EXPLAINED_FILE, EXPLAINED_VERSION, Explained, ExplainedCase, ExplainedFinding, ExplainedTable,
    ExplainedWithout, Lane, Lanes, Phases, Waterfall, read_explained, write_explained,
};
use serde_json::json;
use terms::Status;

use crate::store::{message, write};

fn explained() -> Explained {
    let case = ExplainedCase {
        case: "0123456789ab".into(),
        title: "gpt2_small, 2 ranks".into(),
        verdict: "Rank 1 is slow.".into(),
        findings: vec![ExplainedFinding {
            what: "Rank 1 computes longer".into(),
            evidence: "31 ms, rank 0: 20 ms".into(),
            confidence: "high".into(),
            action: "Look at its core.".into(),
            seconds: 0.011,
            share: Some(0.3548),
            without: Some(ExplainedWithout { step_s: 0.02, low_s: 0.019, high_s: 0.021, recorded_s: 0.031 }),
        }],
        notes: vec!["Two steps were traced.".into()],
        tables: vec![ExplainedTable {
            name: "ranks".into(),
            title: "Ranks".into(),
            columns: vec!["rank".into(), "compute, s".into()],
            rows: vec![vec![json!(0), json!(0.02)], vec![json!("1"), json!(null)]],
        }],
        lanes: Some(Lanes {
            title: "Timeline".into(),
            kinds: vec!["forward".into(), "wait".into()],
            lanes: vec![Lane { label: "rank 0".into(), spans: vec![(0.0, 0.1, 0), (0.1, 0.15, 1)] }],
        }),
        phases: Some(Phases {
            title: "Phases".into(),
            kinds: vec!["forward".into()],
            ranks: vec![("0".into(), vec![0.1])],
        }),
        waterfall: Some(Waterfall {
            title: "Efficiency".into(),
            from: ("ideal".into(), 1.0),
            terms: vec![("wait".into(), -0.25)],
            to: ("measured".into(), 0.75),
            without: vec!["Without slow rank 0 a step would take 90 ms.".into()],
        }),
        blame: Some(Blame { title: "Blame".into(), ranks: vec!["0".into()], seconds: vec![vec![0.5]] }),
        analysis: json!({"steps": [1, 2]}),
    };
    Explained { version: EXPLAINED_VERSION, cases: vec![case] }
}

#[test]
fn it_reads_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read_explained(folder.path()).unwrap(), None);
    for all in [explained(), Explained::default()] {
        write_explained(folder.path(), &all).unwrap();
        assert_eq!(read_explained(folder.path()).unwrap(), Some(all));
    }
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [EXPLAINED_FILE], "nothing is left beside it");
}

/// Members that a writer leaves out are empty, and members of a later program are passed over.
#[test]
fn only_the_version_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"{"version": 1, "later": 1, "cases": [{"case": "a", "later": {}, "lanes": {"kinds": ["x"]}}]}"#;
    fs::write(folder.path().join(EXPLAINED_FILE), text).unwrap();
    let read = read_explained(folder.path()).unwrap().unwrap();
    let lanes = Lanes { kinds: vec!["x".into()], ..Lanes::default() };
    assert_eq!(read.cases, [ExplainedCase { case: "a".into(), lanes: Some(lanes), ..ExplainedCase::default() }]);
}

#[test]
fn what_is_no_such_file_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let said = |text: &str| {
        fs::write(folder.path().join(EXPLAINED_FILE), text).unwrap();
        message(read_explained(folder.path()))
    };
    let mut whole = serde_json::to_string(&explained()).unwrap();
    whole.truncate(whole.len() / 2);
    for (text, why) in [
        ("", "EOF"),
        (whole.as_str(), "EOF"),
        (r#"{"cases": []}"#, "missing field `version`"),
        (r#"{"version": 2, "cases": 3}"#, "version 2; this program reads version 1"),
        (r#"{"version": 1, "cases": [{"lanes": {"lanes": [{"spans": [[0, NaN, 0]]}]}}]}"#, "expected value"),
        (r#"{"version": 1, "cases": [{"findings": [{"seconds": null}]}]}"#, "invalid type: null"),
    ] {
        let said = said(text);
        assert!(said.contains("profile.json cannot be read") && said.contains(why), "{text}: {said}");
    }
}

#[test]
fn numbers_that_json_lacks_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = explained();
    write_explained(folder.path(), &all).unwrap();
    all.cases[0].findings[0].seconds = f64::NAN;
    let said = message(write_explained(folder.path(), &all));
    assert!(said.contains("would not read back"), "{said}");
    assert_eq!(read_explained(folder.path()).unwrap(), Some(explained()), "the one before stays");
}

#[test]
fn it_is_neither_read_nor_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    fs::write(&outside, r#"{"version": 1}"#).unwrap();
    let record = folder.path().join("record");
    fs::create_dir(&record).unwrap();
    std::os::unix::fs::symlink(&outside, record.join(EXPLAINED_FILE)).unwrap();
    for said in [message(read_explained(&record)), message(write_explained(&record, &explained()))] {
        assert!(said.contains("links inside a record are not followed"), "{said}");
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), r#"{"version": 1}"#);
}

#[test]
fn packing_takes_it_with_the_tables_of_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    write(&record, &[(0, Status::Ok)]);
    write_explained(&record, &explained()).unwrap();
    fs::write(record.join("profile-0123456789ab-ranks.csv"), "rank\n0\n").unwrap();
    fs::write(record.join("profile-0123456789ab.txt"), "no file of a record").unwrap();
    let packed = record::pack::pack(&record, &folder.path().join("record.tar.gz"), None).unwrap();
    let has = |name: &str| packed.files.iter().any(|file| Path::new(file).file_name().is_some_and(|of| of == name));
    assert!(has(EXPLAINED_FILE) && has("profile-0123456789ab-ranks.csv"), "{:?}", packed.files);
    assert_eq!(packed.left_out.len(), 1, "{:?}", packed.left_out);
}
