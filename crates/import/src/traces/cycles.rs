//! Several files of one rank: `schedule(repeat=2)` of PyTorch's profiler writes one for each of its cycles. They are one
//! recording with a hole in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use terms::Error;
use trace::timeline::{Kind, RankTimeline, Timeline};

use super::Spans;

/// Refuses files of one rank that are not cycles of one recording: those have other steps at other times.
pub(super) fn refuse_other_runs(parts: &[(PathBuf, Spans)]) -> Result<(), Error> {
    let mut by_rank: BTreeMap<u32, Vec<File<'_>>> = BTreeMap::new();
    for (path, part) in parts {
        for rank in &part.timeline.ranks {
            let file = File::new(path, rank, part.is_calendar);
            by_rank.entry(rank.rank).or_default().push(file);
        }
    }
    for (rank, mut files) in by_rank {
        files.sort_by_key(|file| file.first_ns);
        let refused = files.windows(2).find_map(|pair| Some((pair[0].path, pair[1].path, pair[0].conflict(&pair[1])?)));
        if let Some((one, other, why)) = refused {
            return Err(Error::new(format!("two files belong to rank {rank}"))
                .cause(format!("{} and {}: {why}", one.display(), other.display()))
                .hint("name one file for each rank, or the cycles of one recording"));
        }
    }
    Ok(())
}

/// What tells cycles of a recording from two recordings.
struct File<'p> {
    path: &'p Path,
    /// The lowest and highest step; None without steps.
    steps: Option<(u32, u32)>,
    first_ns: i64,
    last_ns: i64,
    is_calendar: bool,
}

impl<'p> File<'p> {
    fn new(path: &'p Path, rank: &RankTimeline, is_calendar: bool) -> Self {
        let numbers = || rank.spans.iter().filter(|span| span.kind == Kind::Step).map(|span| span.number);
        Self {
            path,
            steps: numbers().min().zip(numbers().max()),
            first_ns: rank.spans.first().map_or(0, |span| span.begin_ns),
            last_ns: rank.spans.iter().map(|span| span.end_ns).max().unwrap_or(0),
            is_calendar,
        }
    }

    /// Why a file that begins later is no later cycle.
    fn conflict(&self, later: &Self) -> Option<String> {
        let (Some((_, last)), Some((first, _))) = (self.steps, later.steps) else {
            return Some("one of them has no steps, so they may be of two runs".to_owned());
        };
        if !(self.is_calendar && later.is_calendar) {
            return Some("their times have no calendar, so they may be of two runs".to_owned());
        }
        if first <= last {
            return Some(format!("the first ends with step {last}, and the second begins with step {first}"));
        }
        (later.first_ns < self.last_ns).then(|| "they overlap in time".to_owned())
    }
}

/// Joins the cycles of each rank, and sorts the ranks.
pub(super) fn join(timeline: &mut Timeline) {
    let mut ranks: BTreeMap<u32, RankTimeline> = BTreeMap::new();
    for mut cycle in std::mem::take(&mut timeline.ranks) {
        let Some(rank) = ranks.get_mut(&cycle.rank) else {
            ranks.insert(cycle.rank, cycle);
            continue;
        };
        let calls = rank.collectives.len() as u32;
        for span in cycle.spans.iter_mut().filter(|span| (span.collective as usize) < cycle.collectives.len()) {
            span.collective += calls;
        }
        rank.spans.append(&mut cycle.spans);
        rank.collectives.append(&mut cycle.collectives);
        rank.descheduled.append(&mut cycle.descheduled);
        rank.descheduled.sort_unstable();
        rank.lost += cycle.lost;
        rank.host = rank.host.take().or(cycle.host);
        rank.sort();
    }
    timeline.ranks = ranks.into_values().collect();
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use terms::Error;
    use trace::timeline::{Kind, Timeline};

    use crate::traces::read_timeline;

    const BASE: i64 = 1_700_000_000_000_000_000;

    /// A cycle of a rank: steps of 100 us each, one every 200 us, with one call of gloo.
    fn cycle(rank: u32, steps: std::ops::Range<u32>, at_us: f64) -> String {
        let event = |category: &str, name: &str, thread: u32, at: f64, time: f64| {
            format!(r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{thread},"ts":{at},"dur":{time}}}"#)
        };
        let events: Vec<String> = steps
            .enumerate()
            .flat_map(|(place, step)| {
                let at = at_us + 200.0 * place as f64;
                [
                    event("user_annotation", &format!("ProfilerStep#{step}"), 1, at, 100.0),
                    event("user_annotation", "gloo:all_reduce", 2, at + 10.0, 20.0),
                ]
            })
            .collect();
        let head = format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}},"baseTimeNanoseconds":{BASE},"#);
        format!(r#"{{"schemaVersion":1,{head}"traceEvents":[{}]}}"#, events.join(","))
    }

    fn read(files: &[String]) -> Result<Timeline, Error> {
        let folder = tempfile::tempdir().unwrap();
        let write = |(at, text): (usize, &String)| {
            let path: PathBuf = folder.path().join(format!("file{at}.pt.trace.json"));
            std::fs::write(&path, text).unwrap();
            path
        };
        read_timeline(&files.iter().enumerate().map(write).collect::<Vec<_>>()).map(|read| read.timeline.unwrap())
    }

    #[test]
    fn cycles_of_a_rank_are_one_recording() {
        let files = [cycle(0, 13..15, 5e5), cycle(1, 3..5, 0.0), cycle(1, 13..15, 5e5), cycle(0, 3..5, 0.0)];
        let timeline = read(&files).unwrap();
        assert_eq!(timeline.notes, Vec::<String>::new());
        assert_eq!(timeline.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
        for rank in &timeline.ranks {
            let steps = rank.spans.iter().filter(|span| span.kind == Kind::Step);
            assert_eq!(steps.map(|span| span.number).collect::<Vec<_>>(), [3, 4, 13, 14]);
            let calls = rank.spans.iter().filter(|span| span.kind == Kind::Collective);
            assert_eq!(calls.map(|span| span.collective).collect::<Vec<_>>().len(), 4);
            assert!(
                rank.spans.iter().filter(|span| span.kind == Kind::Collective).all(|span| rank.call(span).is_some())
            );
        }
    }

    #[test]
    fn files_of_two_runs_are_refused_with_what_does_not_fit() {
        let refused = |files: [String; 2]| read(&files).unwrap_err().to_string();
        let again = refused([cycle(0, 3..5, 0.0), cycle(0, 3..5, 5e5)]);
        assert!(again.starts_with("two files belong to rank 0"), "{again}");
        assert!(again.contains("the first ends with step 4, and the second begins with step 3"), "{again}");
        let parallel = refused([cycle(0, 3..5, 0.0), cycle(0, 5..7, 100.0)]);
        assert!(parallel.contains("they overlap in time"), "{parallel}");
        let without = refused([
            cycle(0, 3..3, 0.0)
                .replace("[]", r#"[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]"#),
            cycle(0, 5..7, 5e5),
        ]);
        assert!(without.contains("has no steps"), "{without}");
    }
}
