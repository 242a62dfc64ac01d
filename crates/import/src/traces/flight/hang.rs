//! What a rank of a job writes down when it ends no step for long: where its main thread is, and its Flight Recorder.
//! `rankmark_profile_agent.py` writes these files.

use serde_json::Value;

use super::ring::{Dump, Frame};
use super::{read, tree};

/// Frames of a stack that are kept, innermost first.
const MOST_FRAMES: usize = 64;

/// A rank that ended no step for long.
#[derive(Clone, Debug, PartialEq)]
pub struct HangNote {
    /// The rank.
    pub rank: u32,
    /// Ranks of the job, where the rank says so.
    pub world: Option<u32>,
    /// Seconds since its last step ended; None for a rank that was seen from outside.
    pub since_last_step_s: Option<f64>,
    /// How long the step took, if it ended after all: then it was slow, and no hang.
    pub step_ended_after_s: Option<f64>,
    /// Where its main thread was, innermost first.
    pub stack: Vec<Frame>,
    /// Whether its process went on to end well after this step, such as after an evaluation that ends no step.
    pub ended_well: bool,
    /// Whether it was in a receive, else a send, and the rank on the other side; None: in neither.
    pub transfer: Option<(bool, u32)>,
    /// What a rank was seen to do from outside: `sleeps`.
    pub doing: Option<String>,
}

impl HangNote {
    /// Whether the rank hung: it ended neither the step nor, in its own way, the process.
    pub fn is_hang(&self) -> bool {
        self.step_ended_after_s.is_none() && !self.ended_well
    }
}

/// What a rank wrote about a hang.
#[derive(Default)]
pub(in crate::traces) struct HangFile {
    pub(in crate::traces) note: Option<HangNote>,
    pub(in crate::traces) dump: Option<Dump>,
    /// What could not be read.
    pub(in crate::traces) notes: Vec<String>,
}

/// Reads such a file. A rank that is killed while it writes must not hide what the others wrote.
pub(super) fn read(name: &str, bytes: &[u8]) -> HangFile {
    let left_out = |why: String| HangFile { notes: vec![format!("{name} is left out: {why}")], ..HangFile::default() };
    let mut value = match tree::json(bytes) {
        Ok(value) => value,
        Err(error) => return left_out(error.cause.unwrap_or(error.what)),
    };
    let recorder = value.get_mut("flight_recorder").map(Value::take);
    let Some(note) = note(&value) else { return left_out("it names no rank".to_owned()) };
    let dump = recorder.filter(Value::is_object).and_then(|recorder| dump(recorder, note.rank));
    HangFile { note: Some(note), dump, notes: Vec::new() }
}

fn note(value: &Value) -> Option<HangNote> {
    let seconds = |key: &str| value.get(key).and_then(Value::as_f64).filter(|seconds| *seconds >= 0.0);
    let whole = |key: &str| value.get(key).and_then(Value::as_u64).and_then(|whole| u32::try_from(whole).ok());
    let stack = value.get("stack").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    Some(HangNote {
        rank: whole("rank")?,
        world: whole("world"),
        since_last_step_s: Some(seconds("since_last_step_s").unwrap_or(0.0)),
        step_ended_after_s: seconds("step_ended_after_s"),
        stack: stack.iter().take(MOST_FRAMES).map(frame).collect(),
        ended_well: value.get("process_ended").and_then(Value::as_str) == Some("normal"),
        transfer: value.get("transfer").and_then(|transfer| {
            let peer = transfer.get("peer")?.as_u64()?.try_into().ok()?;
            Some((transfer.get("operation")?.as_str()? == "recv", peer))
        }),
        doing: None,
    })
}

fn frame(value: &Value) -> Frame {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or("?").into();
    let line = value.get("line").and_then(Value::as_u64).and_then(|line| line.try_into().ok()).unwrap_or(0);
    Frame { name: text("name"), file: text("filename"), line }
}

/// The rank's Flight Recorder, which has no stacks here. None where it cannot be read: the file next to it has more.
fn dump(recorder: Value, rank: u32) -> Option<Dump> {
    let tree = tree::DumpTree::of_json(recorder).ok()?;
    let dump = read::dump(&tree).ok()?;
    Some(Dump { known_rank: Some(rank), ..dump })
}
