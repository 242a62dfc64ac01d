//! Every shape that a reader makes is a case of our benchmarks.

use import::{Content, Source};

use crate::samples;

#[test]
fn each_sample_becomes_a_record_with_a_case_for_each_shape() {
    let tool = record::Tool { name: "rankmark".to_owned(), version: "0".to_owned() };
    for format in import::FORMATS {
        let folder = samples(format.name());
        let folder = std::fs::read_dir(&folder).unwrap_or_else(|error| {
            panic!("each format has files that its tool wrote, in {}: {error}", folder.display())
        });
        let (mut seen, mut files) = (0, 0);
        for file in folder {
            let path = file.unwrap().path();
            files += 1;
            let bare = Source::load(&path).unwrap();
            let found = import::recognise(&bare).unwrap_or_else(|| panic!("{} is not recognised", path.display()));
            assert_eq!(found.name(), format.name(), "{}", path.display());
            // What a file says itself must not be given in another way.
            let with_ranks = bare.clone().with_given("ranks", "8");
            let with_both = with_ranks.clone().with_given("op", "all_to_all");
            let all = [bare, with_ranks, with_both];
            let source = all.iter().find(|source| found.read(source).is_ok()).unwrap_or(&all[2]);
            let Content::Results(results) = found.read(source).unwrap() else {
                seen += 1;
                continue;
            };
            let shapes: usize = results.iter().map(|results| results.shapes().len()).sum();
            let now = jiff::Timestamp::UNIX_EPOCH;
            let records = import::records(source, format.name(), results, &benchmarks::abouts(), &tool, now).unwrap();
            let lines: usize = records.iter().map(|record| record.lines.len()).sum();
            let omitted: Vec<_> =
                records.iter().map(|record| &record.file.imported.as_ref().unwrap().omitted).collect();
            assert_eq!(lines, shapes, "{}: {omitted:?}", path.display());
            seen += lines;
        }
        assert!(seen > 0, "{}: {files} samples give neither a plan nor a case", format.name());
    }
}

#[test]
fn runs_without_a_case_are_told_in_the_record_of_the_others() {
    let tool = record::Tool { name: "rankmark".to_owned(), version: "0".to_owned() };
    let source = Source::load(&samples("ddlb_csv").join("columnwise.csv")).unwrap();
    let Content::Results(results) = import::read(&source, None).unwrap().content else { panic!("a plan") };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let records = import::records(&source, "ddlb_csv", results, &benchmarks::abouts(), &tool, now).unwrap();
    let omitted = &records[0].file.imported.as_ref().unwrap().omitted;
    assert_eq!(records.len(), 2);
    assert!(omitted.iter().any(|what| what.contains("its own check failed")), "{omitted:?}");
    // Implementations without a counterpart have their own names.
    let names: Vec<&str> = records
        .iter()
        .flat_map(|record| &record.file.plan.cases)
        .filter_map(|case| case.text("implementation"))
        .collect();
    assert!(
        names.contains(&"compute_only") && names.iter().any(|name| name.starts_with("fuser (backend=")),
        "{names:?}"
    );
}
