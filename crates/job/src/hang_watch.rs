//! A job that hangs, while it runs: what its ranks wrote down of the hang is said when it is there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use import::traces::read_timeline;

use crate::hangs;

/// Ranks find a hang at about the same time: so long the first one's note waits for those of the others.
const SETTLING: Duration = Duration::from_millis(1500);

/// Looks for notes of a hang in the folder that ranks write to.
pub(crate) struct HangWatch {
    traces: PathBuf,
    seen: usize,
    due: Option<Instant>,
    said: HashSet<String>,
}

impl HangWatch {
    pub(crate) fn new(traces: &Path) -> Self {
        Self { traces: traces.to_owned(), seen: 0, due: None, said: HashSet::new() }
    }

    /// Says what is new. To be called several times a second.
    pub(crate) fn look(&mut self, say: &mut dyn FnMut(&str)) {
        let files = self.files();
        if files.len() > self.seen {
            self.seen = files.len();
            self.due = Some(Instant::now() + SETTLING);
        }
        if self.due.take_if(|due| *due <= Instant::now()).is_some() {
            self.tell(&files, say);
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = self.traces.read_dir().into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with("hang-")).map(|name| self.traces.join(name)).collect()
    }

    fn tell(&mut self, files: &[PathBuf], say: &mut dyn FnMut(&str)) {
        // The job goes on, and its end is explained from the same files: one that cannot be read is said then.
        let Ok(traces) = read_timeline(files) else { return };
        for sentence in hangs::sentences(&traces) {
            if self.said.insert(sentence.clone()) {
                say(&format!("the job hangs: {sentence}"));
            }
        }
    }
}
