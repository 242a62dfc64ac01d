//! The text of p2pBandwidthLatencyTest.

use crate::{lines, one, read, refusal, sample, source};

fn text(file: &str) -> String {
    sample("p2p_bandwidth", file)
}

fn implementations(results: &import::Results) -> Vec<Option<&str>> {
    results.shapes().iter().map(|(shape, _)| shape.implementation.as_deref()).collect()
}

#[test]
fn what_goes_by_the_host_is_apart_from_what_goes_between_gpus() {
    let results = one(&text("eight_gpus.txt"));
    assert_eq!(
        implementations(&results),
        [None, Some("P2P=Disabled"), Some("P2P=Enabled (P2P Writes)"), None, Some("P2P=Enabled (P2P Writes)"),]
    );
    let found = lines(&results);
    // The median GPU, 2 x 160e6 bytes / 2878.36e9 bytes a second; twice: without access to others and with it.
    assert!(
        found[0].starts_with("hardware test=device_copy ranks=1 device=cuda bytes=160000000 on cuda: "),
        "{found:?}"
    );
    assert_eq!(results.shapes()[0].1.len(), 2);
    assert!(found[1].starts_with("hardware test=peer_copy ranks=8 device=cuda bytes=160000000 on cuda: "), "{found:?}");
    assert!(found[4].starts_with("hardware test=peer_copy ranks=8 device=cuda bytes=16 on cuda: 2.7"), "{found:?}");
    let rates = &results.shapes()[2].1[0].details.as_ref().unwrap().matrices[1];
    assert_eq!(rates.0, "pair_gbs");
    let near = |rate: Option<f64>, expected: f64| (rate.unwrap() - expected).abs() < 1e-9;
    assert!(rates.1[0][0].is_none() && near(rates.1[0][1], 365.3) && near(rates.1[1][0], 375.88), "{rates:?}");
    assert!(results.notes.iter().any(|note| note.contains("160000000 bytes, the default since CUDA 11.1")));
}

#[test]
fn the_diagonal_counts_what_is_read_and_written() {
    let results = one(&text("four_without_access.md"));
    let (shape, trials) = &results.shapes()[0];
    assert_eq!(shape.fields[0].1, "device_copy");
    // 831.56 GB/s of 2 x 160e6 bytes: 384.8 us. The median of 831.56, 829.35, 831.70 and 831.56.
    assert!((trials[0].time_s - 320e6 / 831.56e9).abs() < 1e-12, "{}", trials[0].time_s);
    assert!((trials[0].details.as_ref().unwrap().metrics[0].1 - 831.56).abs() < 1e-9);
}

#[test]
fn pairs_without_access_are_no_peers() {
    let results = one(&text("four_without_access.md"));
    assert_eq!(implementations(&results), [None, Some("P2P=Disabled"), None, Some("P2P=Disabled")]);
    let omitted = results.all_omitted();
    assert_eq!(omitted.len(), 5, "{omitted:?}");
    assert!(
        omitted[0].starts_with("line 36: `Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)`: the file")
    );
    assert!(omitted[1].contains("both ways at once") && omitted[4].contains("`CPU`"), "{omitted:?}");
    let some =
        one(&text("four_without_access.md")
            .replace("     0       1     0     0     0", "     0       1     1     0     0"));
    let rates = &some.shapes()[2].1[0].details.as_ref().unwrap().matrices[1].1;
    assert_eq!(rates.iter().flatten().flatten().count(), 1, "{rates:?}");
}

#[test]
fn options_say_size_and_mechanism() {
    let with = |options: &str| {
        text("four_without_access.md")
            .replace("./p2pBandwidthLatencyTest\n", &format!("./p2pBandwidthLatencyTest {options}\n"))
    };
    let results = one(&with("--numElems=1000000"));
    assert!(lines(&results)[0].contains("bytes=4000000 "), "{:?}", lines(&results));
    assert!(!results.notes.iter().any(|note| note.contains("default since")));
    let kernels =
        one(&with("--sm_copy").replace("     0       1     0     0     0", "     0       1     1     0     0"));
    assert!(kernels.all_omitted().iter().any(|what| what.contains("by kernels")), "{:?}", kernels.all_omitted());
}

#[test]
fn tables_that_are_cut_are_left_out() {
    for (width, expected) in [(55, 2), (54, 0), (53, 0), (40, 0), (8, 0)] {
        let cut: String =
            text("eight_gpus.txt").lines().map(|line| line.get(..width).unwrap_or(line).to_owned() + "\n").collect();
        let Ok(all) = read(&source(&cut)) else { continue };
        let found: usize = all.iter().map(|results| results.shapes().len()).sum();
        let cases: Vec<_> = all.iter().flat_map(lines).collect();
        assert!(found == 0 || expected > 0 && found <= expected, "{width}: {cases:?}");
    }
    let whole = text("eight_gpus.txt");
    for (from, to, why) in [
        ("     7  37.22  37.55  38.40  38.15  38.11  37.70  37.28 2884.50\n", "", "expected 8 rows, found 7"),
        ("37.28 2884.50", "37.28 2884.5", "expected two decimals of each number"),
        ("37.28 2884.50", "37.28", "expected 8 values"),
        ("Disabled Bandwidth Matrix (GB/s)", "Disabled Bandwidth Matrix (GiB/s)", "does not know it"),
    ] {
        let results = one(&whole.replace(from, to));
        assert!(results.all_omitted()[0].contains(why), "{:?}", results.all_omitted());
        assert!(!implementations(&results).contains(&Some("P2P=Disabled")), "{why}");
    }
}

#[test]
fn commas_and_mixed_lines_are_refused() {
    let whole = text("eight_gpus.txt");
    assert!(refusal(&whole.replace("37.28 2884.50", "37.28 2884,50")).contains("a comma counts only"));
    let row = "     7  37.22  37.55  38.40  38.15  38.11  37.70  37.28 2884.50\n";
    for (from, to) in [(row, row.to_owned() + row), (row, format!("{row}P2P Connectivity Matrix\n"))] {
        let why = refusal(&whole.replace(from, &to));
        assert!(why.contains("separate programs wrote here at once"), "{why}");
    }
}

#[test]
fn runs_under_two_headings_are_two_records() {
    let run = text("eight_gpus.txt");
    let all = read(&source(&format!("## before\n{run}\n## after\n{}", run.replace("365.30", "265.30")))).unwrap();
    assert_eq!((all.len(), all[1].facts["heading"].as_str()), (2, "after"));
    assert_eq!(one(&format!("{run}{run}")).shapes()[1].1.len(), 2, "trials");
    let quoted = run.split_once("P2P Connectivity").unwrap().1;
    let quoted = format!("# A\nP2P Connectivity{quoted}\n# B\nP2P Connectivity{quoted}");
    let apart = read(&source(&quoted)).unwrap();
    let numbered = read(&source(&quoted.replace("# A", "1. A").replace("# B", "2. B"))).unwrap();
    assert_eq!((apart.len(), numbered.len(), apart[0].all_omitted()), (2, 2, numbered[0].all_omitted()));
}

#[test]
fn what_other_programs_wrote_into_the_file_is_read_by_their_readers() {
    let both = sample("nvbandwidth", "v0.8_one_gpu.txt") + &text("eight_gpus.txt");
    let all = read(&source(&both)).unwrap();
    let formats: Vec<_> = all.iter().map(|results| results.format.unwrap()).collect();
    assert_eq!(formats, ["nvbandwidth", "p2p_bandwidth"]);
    assert_eq!(lines(&all[1]), lines(&one(&text("eight_gpus.txt"))));
}
