//! The page, character by character.

use view::terminal;

use super::*;
use crate::outlook::Skipped;

fn findings() -> Findings {
    let rows = vec![
        Finding::ready("CPU", "EPYC: 2 threads").group("system"),
        Finding::slow("huge pages", "never, for shared memory")
            .impact("4 to 9%")
            .fix("echo advise > x")
            .group("limits"),
        Finding::missing("cuDNN", "not there").group("GPU"),
        Finding::missing("NVRTC", "not there").group("GPU"),
        Finding::missing("NCCL", "not there").group("GPU"),
        Finding::missing("MPI", "no libmpi").impact("no comparison").fix("apt install openmpi-bin").group("MPI"),
        Finding::misconfigured("torch", "cannot be imported: ".to_owned() + &"long ".repeat(30)).group("PyTorch"),
    ];
    Findings {
        rows,
        left_out: vec![("profilers", "slow")],
        outlook: None,
        benchmarks: vec!["collective"],
        python: None,
    }
}

fn plain(text: &str) -> String {
    let text = terminal::output(text);
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn the_page_is_aligned_and_says_everything_in_words() {
    let page = plain(&text(&findings(), 80, false));
    let expect = "\
system
  ✓ ready          CPU         EPYC: 2 threads
limits
  ! slow           huge pages  never, for shared memory
    impact         4 to 9%
    fix            echo advise > x
GPU
  · missing        cuDNN, NVRTC, NCCL: not there
MPI
  · missing        MPI         no libmpi
    impact         no comparison
    fix            apt install openmpi-bin
PyTorch
";
    assert!(page.starts_with(expect), "{page}");
    assert!(
        page.contains("left out by --quick: profilers (slow)\n1 ready, 1 slow, 1 misconfigured, 4 missing\n"),
        "{page}"
    );
    assert!(page.ends_with("fix first: torch\n1 of 8 benchmarks can run here: collective\n"), "{page}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [80, 100, 120] {
        for line in plain(&text(&findings(), width, false)).lines() {
            assert!(line.chars().count() <= width && line == line.trim_end(), "{width}: `{line}`");
        }
    }
}

#[test]
fn the_whole_page_joins_nothing_and_names_every_case() {
    let skipped = |number: u32| Skipped {
        id: number.to_string(),
        name: format!("case {number}"),
        reason: "too large".to_owned(),
    };
    let outlook = Outlook {
        file: "plan.yaml".to_owned(),
        cases: 5,
        skipped: (0..5).map(skipped).collect(),
        not_looked_at: Vec::new(),
        notes: vec!["pytorch is left out: torch was not found".to_owned()],
    };
    let findings = Findings { outlook: Some(outlook), ..findings() };
    let page = |whole: bool| plain(&text(&findings, 80, whole));
    assert!(page(false).contains("cuDNN, NVRTC, NCCL: not there") && page(false).contains("and 2 more\n"));
    for line in ["missing        cuDNN", "missing        NVRTC", "      case 4\n"] {
        assert!(page(true).contains(line), "{line}: {}", page(true));
    }
    assert!(!page(true).contains("more\n"));
    // What is left out of a plan is not a case of it: only the note says so.
    for page in [page(true), page(false), plain(&wrong(&findings, 80))] {
        assert!(page.contains("0 of 5 cases would run here\n    note: pytorch is left out: torch was"), "{page}");
    }
}

#[test]
fn what_is_wrong_is_all_that_is_said_quietly() {
    assert_eq!(plain(&wrong(&findings(), 80)), "fix first: torch\n");
    let fine = Findings { rows: vec![Finding::ready("CPU", "EPYC")], ..findings() };
    assert_eq!(wrong(&fine, 80), "");
}

/// The page of the links between so many GPUs.
fn links(gpus: usize, width: usize) -> String {
    let names = || (0..gpus).map(|gpu| format!("GPU{gpu}"));
    let line = |(at, name): (usize, String)| {
        let cells = (0..gpus).map(|other| if other == at { "X".to_owned() } else { "NV18".to_owned() });
        std::iter::once(name).chain(cells).collect()
    };
    let head = std::iter::once(String::new()).chain(names()).collect();
    let table = std::iter::once(head).chain(names().enumerate().map(line)).collect();
    let row = Finding::ready("GPU links", format!("NV18 between all {gpus} GPUs")).group("GPU").table(table);
    plain(&text(&Findings { rows: vec![row], ..findings() }, width, false))
}

#[test]
fn a_matrix_of_eight_gpus_stands_below_its_row() {
    let page = links(8, 80);
    let expect = "\
GPU
  ✓ ready  GPU links  NV18 between all 8 GPUs
                 GPU0  GPU1  GPU2  GPU3  GPU4  GPU5  GPU6  GPU7
           GPU0  X     NV18  NV18  NV18  NV18  NV18  NV18  NV18
           GPU1  NV18  X     NV18  NV18  NV18  NV18  NV18  NV18
";
    assert!(page.starts_with(expect), "{page}");
}

#[test]
fn a_matrix_that_is_too_wide_goes_on_below() {
    let page = links(16, 80);
    assert!(page.lines().all(|line| line.chars().count() <= 80 && line == line.trim_end()), "{page}");
    let lines: Vec<&str> = page.lines().map(str::trim).collect();
    let heads: Vec<&&str> = lines.iter().filter(|line| line.starts_with("GPU0 ") && line.contains("GPU1 ")).collect();
    assert_eq!(heads.len(), 1, "{page}");
    assert!(lines.contains(&"GPU9   GPU10  GPU11  GPU12  GPU13  GPU14  GPU15"), "{page}");
    assert!(lines.contains(&"GPU15  NV18   NV18   NV18   NV18   NV18   NV18   X"), "{page}");
}
