//! The steps of ranks that left no trace: each rank of a job writes down, when a step ends, how long it took and where the time
//! went. `rankmark_profile_spill.py` writes these files, and they survive SIGKILL.

use serde_json::Value;
use trace::timeline::{Kind, RankTimeline, Timeline};

/// `Timeline::source` where no rank has a trace.
const SOURCE: &str = "the ranks' own clocks";

/// Steps that a rank writes down at most: `MOST_STEPS` of `rankmark_profile_spill.py`.
pub(crate) const MOST: usize = 10_000;

/// The steps of one rank.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Spill {
    pub(crate) rank: u32,
    pub(crate) world: Option<u32>,
    pub(crate) pid: u64,
    host: Option<String>,
    /// The first step of the window, and the one after the last.
    pub(crate) window: Option<(u32, u32)>,
    /// Seconds of the window, where it is one of seconds.
    pub(crate) window_s: Option<f64>,
    /// How often the launcher had restarted the rank.
    pub(crate) restarts: u32,
    pub(crate) steps: Vec<SpilledStep>,
}

/// A step that has ended.
#[derive(Debug, PartialEq)]
pub(crate) struct SpilledStep {
    number: u32,
    begin_ns: i64,
    end_ns: i64,
    pub(crate) is_traced: bool,
    phases: Vec<(Kind, i64, i64)>,
}

impl Spill {
    /// Reads a file of it. None without a first line that names the rank. The last line may be cut, and anybody may have
    /// written the file: lines that are not steps are left out.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let head: Value = record::from_json(lines.next()?).ok()?;
        let whole = |value: &Value| value.as_u64().and_then(|whole| u32::try_from(whole).ok());
        let window = head["window"].as_array().and_then(|ends| Some((whole(ends.first()?)?, whole(ends.get(1)?)?)));
        let mut steps: Vec<SpilledStep> =
            lines.filter_map(|line| SpilledStep::from_json(&record::from_json(line).ok()?)).collect();
        steps.sort_by_key(|step| step.number);
        steps.dedup_by_key(|step| step.number);
        Some(Self {
            rank: whole(&head["rank"])?,
            world: whole(&head["world"]),
            pid: head["pid"].as_u64().unwrap_or(0),
            host: head["host"].as_str().map(str::to_owned),
            window: window.filter(|(first, last)| first < last),
            window_s: head["window_s"].as_f64(),
            restarts: whole(&head["restarts"]).unwrap_or(0),
            steps,
        })
    }

    pub(crate) fn traced(&self) -> usize {
        self.steps.iter().filter(|step| step.is_traced).count()
    }

    /// Whether the rank wrote down as many steps as it does: more may have ended.
    pub(crate) fn is_full(&self) -> bool {
        self.steps.len() >= MOST
    }

    /// The last step that is written down.
    pub(crate) fn last(&self) -> Option<u32> {
        self.steps.last().map(|step| step.number)
    }

    fn timeline(&self, names: &mut trace::timeline::Names, only_traced: bool) -> RankTimeline {
        // Exchanges of the backward pass are not seen, so waits for them are not known.
        let endless = u64::from(self.world != Some(1));
        let mut own = RankTimeline { rank: self.rank, host: self.host.clone(), endless, ..RankTimeline::default() };
        for step in self.steps.iter().filter(|step| step.is_traced || !only_traced) {
            own.push(Kind::Step, names.intern("step"), step.number, step.begin_ns, step.end_ns);
            for (kind, begin_ns, end_ns) in &step.phases {
                own.push(*kind, names.intern(kind.name()), 0, *begin_ns, *end_ns);
            }
        }
        own.sort();
        own
    }
}

impl SpilledStep {
    /// `[number, end, duration, 1 if it was traced, [[letter, offset, duration], ...]]`, times in nanoseconds.
    fn from_json(value: &Value) -> Option<Self> {
        let fields = value.as_array()?;
        let whole = |at: usize| fields.get(at)?.as_i64();
        let (end_ns, duration_ns) = (whole(1)?, whole(2).filter(|ns| *ns >= 0)?);
        let begin_ns = end_ns.checked_sub(duration_ns)?;
        let phase = |phase: &Value| {
            let kind = match phase.get(0)?.as_str()? {
                "i" => Kind::Input,
                "f" => Kind::Forward,
                "b" => Kind::Backward,
                "o" => Kind::Optimizer,
                "w" => Kind::Wait,
                _ => return None,
            };
            let begin_ns = begin_ns.checked_add(phase.get(1)?.as_i64().filter(|ns| *ns >= 0)?)?;
            let end_ns = begin_ns.checked_add(phase.get(2)?.as_i64().filter(|ns| *ns >= 0)?)?;
            Some((kind, begin_ns, end_ns))
        };
        Some(Self {
            number: u32::try_from(whole(0)?).ok()?,
            begin_ns,
            end_ns,
            is_traced: whole(3)? == 1,
            phases: fields.get(4)?.as_array()?.iter().filter_map(phase).collect(),
        })
    }
}

/// Adds the ranks that have no trace to a timeline, or makes one of them. Gives notes on what is not known of them.
pub(crate) fn complete(timeline: &mut Option<Timeline>, spills: &[Spill]) -> Vec<String> {
    let is_there = |rank: u32| timeline.iter().flat_map(|known| &known.ranks).any(|known| known.rank == rank);
    let missing: Vec<&Spill> = spills.iter().filter(|spill| !is_there(spill.rank) && !spill.steps.is_empty()).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let only_traced = timeline.is_some() || missing.iter().any(|spill| spill.traced() > 0);
    let joined = timeline.get_or_insert_with(|| Timeline {
        source: SOURCE.to_owned(),
        world: missing.iter().filter_map(|spill| spill.world).max(),
        clock_error_ns: Some(0),
        ..Timeline::default()
    });
    for spill in &missing {
        let own = spill.timeline(&mut joined.names, only_traced);
        joined.ranks.push(own);
    }
    joined.ranks.sort_by_key(|rank| rank.rank);
    let hosts = || joined.ranks.iter().map(|rank| &rank.host);
    if hosts().any(|host| hosts().next() != Some(host)) {
        joined.clock_error_ns = None;
    }
    let ranks: Vec<u32> = missing.iter().map(|spill| spill.rank).collect();
    let what = super::hangs::ranks(&ranks);
    let mut notes = vec![format!(
        "steps and phases of {what} are those that the rank noted itself, without kernels and exchanges: what it waits for is \
         not known"
    )];
    if !only_traced {
        notes.push(
            "the profiler recorded no step: all steps that ended are shown, also those of the warm-up".to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"rank":1,"world":2,"host":"a","pid":7,"window":[10,60],"window_s":null}"#;

    #[test]
    fn what_a_killed_rank_noted_is_read_up_to_the_cut() {
        let text = format!("{HEAD}\n[10,5000,1000,1,[[\"b\",200,300],[\"?\",0,1]]]\nodd\n[9,4000,900,0,[]]\n[11,60");
        let spill = Spill::read(&text).unwrap();
        assert_eq!((spill.rank, spill.traced(), spill.last(), spill.window), (1, 1, Some(10), Some((10, 60))));
        let mut timeline = None;
        let notes = complete(&mut timeline, &[spill]);
        let timeline = timeline.unwrap();
        assert!(notes.len() == 1 && notes[0].starts_with("steps and phases of rank 1 "), "{notes:?}");
        let kinds: Vec<(Kind, i64, i64)> =
            timeline.ranks[0].spans.iter().map(|span| (span.kind, span.begin_ns, span.end_ns)).collect();
        assert_eq!(kinds, [(Kind::Step, 4000, 5000), (Kind::Backward, 4200, 4500)]);
        // Its waits are not known, so no verdict on ranks may be made of it.
        assert_eq!((timeline.ranks[0].endless, timeline.world), (1, Some(2)));
    }

    #[test]
    fn a_file_of_anybody_is_no_reason_to_fail() {
        assert_eq!(Spill::read(""), None);
        assert_eq!(Spill::read("{\"world\":1}\n"), None);
        let hostile = format!(
            "{HEAD}\n[1,-9223372036854775808,9,1,[]]\n[2,5,-1,1,[]]\n[3,9223372036854775807,0,1,[[\"b\",9,9]]]"
        );
        let spill = Spill::read(&hostile).unwrap();
        assert_eq!((spill.steps.len(), spill.steps[0].phases.len()), (1, 0));
    }

    #[test]
    fn a_rank_with_a_trace_keeps_it() {
        let spill = || Spill::read(&format!("{HEAD}\n[10,5000,1000,1,[]]")).unwrap();
        let mut timeline =
            Some(Timeline { ranks: vec![RankTimeline { rank: 1, ..RankTimeline::default() }], ..Timeline::default() });
        assert!(complete(&mut timeline, &[spill()]).is_empty());
        assert!(timeline.unwrap().ranks[0].spans.is_empty());
    }
}
