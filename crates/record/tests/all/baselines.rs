//! Baselines: which runs they keep, and what is one.

use std::fs;

use record::{CompactRecord, Imported, Record, TimeSummary, list_baselines, read_baseline, read_run, save_baseline};
use terms::Status;

use crate::store::{message, write};

/// One import makes records of one date, such as those of two tables in one log.
#[test]
fn runs_of_one_import_are_kept_apart() {
    let root = tempfile::tempdir().unwrap();
    let (directory, folder) = (root.path().join("record"), root.path().join("baselines"));
    write(&directory, &[(0, Status::Ok)]);
    let imported = |median: f64| {
        let mut record = read_run(&directory).unwrap();
        record.file.imported = Some(Imported::default());
        record.cases[0].time_s = Some(TimeSummary { median, ..TimeSummary::default() });
        record
    };
    let is_saved = |record: &Record| {
        let compact = CompactRecord::new(record, None).unwrap();
        save_baseline(&folder, "main", &compact).unwrap().is_some()
    };
    assert!(is_saved(&imported(1e-3)) && is_saved(&imported(2e-3)), "both are runs");
    assert!(!is_saved(&imported(1e-3)), "it is there already");
    let runs = read_baseline(&folder, "main").unwrap();
    let medians: Vec<f64> = runs.iter().flat_map(|run| &run.cases[0].time_s).map(|time| time.median).collect();
    assert!(medians.len() == 2 && medians.contains(&1e-3) && medians.contains(&2e-3), "{medians:?}");
    // Of a measured run the date tells it.
    let measured = read_run(&directory).unwrap();
    assert!(is_saved(&measured) && !is_saved(&measured));
}

#[test]
fn a_folder_without_runs_is_no_baseline() {
    let root = tempfile::tempdir().unwrap();
    let (directory, folder) = (root.path().join("record"), root.path().join("baselines"));
    write(&directory, &[(0, Status::Ok)]);
    let compact = CompactRecord::new(&read_run(&directory).unwrap(), None).unwrap();
    save_baseline(&folder, "main", &compact).unwrap();
    fs::create_dir(folder.join("left")).unwrap();
    assert_eq!(list_baselines(&folder).unwrap(), [("main".to_owned(), 1)]);
    let why = message(read_baseline(&folder, "left"));
    assert!(why.contains("there is no baseline `left`") && why.contains("existing baselines: main\n"), "{why}");
}
