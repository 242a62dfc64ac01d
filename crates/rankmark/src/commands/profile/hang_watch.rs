//! A job that hangs, while it runs: what its ranks wrote down of the hang is printed when it is there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use import::traces::read_timeline;

use super::hangs;
use crate::screen;

/// Ranks find a hang at about the same time: so long the first one's note waits for those of the others.
const SETTLING: Duration = Duration::from_millis(1500);

/// Looks for notes of a hang in the folder that ranks write to.
pub(super) struct HangWatch {
    traces: PathBuf,
    seen: usize,
    due: Option<Instant>,
    printed: HashSet<String>,
}

impl HangWatch {
    pub(super) fn new(traces: &Path) -> Self {
        Self { traces: traces.to_owned(), seen: 0, due: None, printed: HashSet::new() }
    }

    /// Prints what is new. To be called several times a second.
    pub(super) fn look(&mut self) {
        let files = self.files();
        if files.len() > self.seen {
            self.seen = files.len();
            self.due = Some(Instant::now() + SETTLING);
        }
        if self.due.take_if(|due| *due <= Instant::now()).is_some() {
            self.tell(&files);
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = self.traces.read_dir().into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with("hang-")).map(|name| self.traces.join(name)).collect()
    }

    fn tell(&mut self, files: &[PathBuf]) {
        // The job goes on, and its end is explained from the same files: one that cannot be read is said then.
        let Ok(traces) = read_timeline(files) else { return };
        for sentence in hangs::sentences(&traces) {
            if self.printed.insert(sentence.clone()) {
                screen::noted(&format!("the job hangs: {sentence}"));
            }
        }
    }
}
