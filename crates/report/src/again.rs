//! What measures cases of a record again.

use record::CaseLine;

use crate::{Run, escape};

impl Run {
    /// The command that runs what is missing or failed in this record, under the launcher that the record was taken under.
    fn resume_command(&self) -> String {
        let own = format!("rankmark run --resume {}", escape::shell(&self.directory.display().to_string()));
        if self.launcher.is_empty() { own } else { format!("{} {own}", self.launcher) }
    }

    /// The command that measures these cases again, into this record; where another program measured them, the same here, in a
    /// record of its own: an imported record says what a file says, and nothing may take its place. None where the record cannot
    /// go on, or nothing here measures the same.
    pub fn again(&self, cases: &[&CaseLine]) -> Option<String> {
        match (self.interleaved.is_some(), self.imported.is_empty()) {
            // Pairs of now and of then are not pairs.
            (true, _) => None,
            (false, true) => Some(self.resume_command()),
            (false, false) => same_here(cases),
        }
    }
}

/// The collectives like the first of these cases, at all their sizes.
fn same_here(cases: &[&CaseLine]) -> Option<String> {
    let text = |case: &CaseLine, name: &str| case.parameters.get(name).map(view::plain);
    let first = cases.iter().find(|case| case.benchmark == "collective")?;
    let is_like = |case: &&&CaseLine| {
        let same = |name: &str| text(case, name) == text(first, name);
        case.benchmark == first.benchmark
            && case.ranks == first.ranks
            && ["op", "backend", "dtype", "reduce"].iter().all(|name| same(name))
    };
    let mut sizes: Vec<u64> = cases.iter().filter(is_like).filter_map(|case| case.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut words = vec!["rankmark".to_owned(), "comm".to_owned(), text(first, "op")?];
    words.push(format!("--ranks {}", first.ranks));
    for name in ["backend", "dtype", "reduce"] {
        words.extend(text(first, name).map(|value| format!("--{name} {}", escape::shell(&value))));
    }
    if !sizes.is_empty() {
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        words.push(format!("--bytes {}", sizes.join(",")));
    }
    Some(words.join(" "))
}
