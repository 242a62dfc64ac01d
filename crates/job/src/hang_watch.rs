//! A job that hangs, while it runs: what its ranks wrote down of the hang is said when it is there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use import::traces::{HangNote, read_timeline};

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
            self.due = Some(Instant::now() + SETTLING);
        }
        // A rank that starts again removes what it wrote before.
        self.seen = files.len();
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
        let notes = &traces.hang_notes;
        if !notes.is_empty() && !notes.iter().any(HangNote::is_hang) {
            return;
        }
        // Ranks that are in no call may compute, such as in an evaluation.
        let is_proven = !hangs::json(&traces).is_null() || notes.iter().any(|note| note.transfer.is_some());
        let how = if is_proven { "the job hangs" } else { "the job may hang" };
        for sentence in hangs::sentences(&traces) {
            if self.said.insert(sentence.clone()) {
                say(&format!("{how}: {sentence}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of traces, with the note of a rank.
    fn noted(name: &str, note: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rankmark-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("hang-rank0.json"), note).unwrap();
        folder
    }

    #[test]
    fn ranks_that_start_again_may_hang_again() {
        let folder = noted("hangs-again", "{}");
        let mut watch = HangWatch::new(&folder);
        watch.look(&mut |_| {});
        assert!(watch.due.take().is_some());
        std::fs::remove_file(folder.join("hang-rank0.json")).unwrap();
        watch.look(&mut |_| {});
        std::fs::write(folder.join("hang-rank0.json"), "{}").unwrap();
        watch.look(&mut |_| {});
        assert!(watch.due.is_some());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_hang_that_nothing_proves_is_told_as_one_that_may_be() {
        let told = |name: &str, ended: &str| {
            let stack = r#"[{"name":"evaluate","filename":"job.py","line":7}]"#;
            let head = r#""rank":0,"world":1,"since_last_step_s":15.2,"steps_ended":40,"flight_recorder":null"#;
            let folder = noted(name, &format!("{{{head},\"stack\":{stack},\"step_ended_after_s\":{ended}}}"));
            let mut watch = HangWatch::new(&folder);
            let mut all = Vec::new();
            let files = watch.files();
            watch.tell(&files, &mut |sentence: &str| all.push(sentence.to_owned()));
            std::fs::remove_dir_all(&folder).unwrap();
            all
        };
        let sentence = "the job may hang: rank 0 ended no step for 15 s: evaluate (job.py:7)";
        assert_eq!(told("may-hang", "null"), [sentence]);
        assert!(told("went-on", "16.0").is_empty());
    }
}
