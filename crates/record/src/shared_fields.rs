//! Fields that mean the same in every benchmark that declares them, as typed functions of a case. Crates that know no benchmark
//! read them here: nobody else looks a field up by its name (`cargo xtask tidy` checks it). A benchmark reads its own fields
//! by [`crate::fields`].

use serde_json::Value;
use terms::{Bytes, Collective, Mode};

use crate::{Case, JobCalls};

impl Case {
    /// Ranks of its world; 1 if it declares none.
    pub fn ranks(&self) -> u32 {
        self.count("ranks").unwrap_or(1)
    }

    /// Threads that each rank computes with; 1 if it declares none.
    pub fn threads(&self) -> u32 {
        self.count("threads").unwrap_or(1)
    }

    /// The size of its messages or buffers.
    pub fn bytes(&self) -> Option<u64> {
        self.whole("bytes")
    }

    /// The collective or other operation between ranks.
    pub fn op(&self) -> Option<Collective> {
        self.word("op")
    }

    /// The type of its elements, or that of its products in training.
    pub fn dtype(&self) -> Option<&str> {
        self.text("dtype").or_else(|| self.text("precision"))
    }

    /// What its products are computed in: the type of its elements, or a way to multiply them that has a peak of its own.
    pub fn arithmetic(&self) -> Option<&str> {
        self.text("matmul").filter(|way| *way == "tf32").or_else(|| self.dtype())
    }

    /// What moves data between its ranks.
    pub fn backend(&self) -> Option<&str> {
        self.text("backend")
    }

    /// What executes its ranks.
    pub fn runtime(&self) -> &str {
        self.text("runtime").unwrap_or("native")
    }

    /// The device that holds its buffers and computes.
    pub fn device(&self) -> Option<&str> {
        self.text("device")
    }

    /// How its ranks are bound.
    pub fn bind(&self) -> &str {
        self.text("bind").unwrap_or("core")
    }

    /// Variables in the environment of its ranks, as NAME=value.
    pub fn environment(&self) -> Vec<String> {
        self.texts("env")
    }

    /// Whether calls are slowed down to a link of some bandwidth.
    pub fn is_paced(&self) -> bool {
        self.number("pace_bandwidth").is_some()
    }

    /// Whether computed times vary.
    pub fn is_noisy(&self) -> bool {
        self.number("noise").is_some()
    }

    /// How calls are timed.
    pub fn mode(&self) -> Mode {
        self.word("mode").unwrap_or(Mode::Streaming)
    }

    /// Whether it is a quick run without intervals.
    pub fn is_quick(&self) -> bool {
        self.flag("quick")
    }

    /// A path of a machine's profile; `true` or `false`: whether the limit is measured.
    pub fn limits(&self) -> Option<&str> {
        self.text("limits")
    }

    /// A fixed number of trials.
    pub fn trials(&self) -> Option<u32> {
        self.count("trials")
    }

    /// A fixed number of warm-up samples in each trial.
    pub fn warmup(&self) -> Option<u32> {
        self.count("warmup")
    }

    /// A fixed number of samples in each trial.
    pub fn iters(&self) -> Option<u32> {
        self.count("iters")
    }

    /// A fixed number of training steps in each trial.
    pub fn steps(&self) -> Option<u32> {
        self.count("steps")
    }

    /// Half width of the interval to reach, relative to the median.
    pub fn target_precision(&self) -> Option<f64> {
        self.number("target_precision")
    }

    /// Seconds of sampling at most, over all trials.
    pub fn max_seconds(&self) -> Option<f64> {
        self.number("max_seconds")
    }

    /// Seconds between the starts of its trials.
    pub fn spacing(&self) -> Option<f64> {
        self.number("spacing")
    }

    /// Seconds beyond `max_seconds` until it has failed.
    pub fn timeout(&self) -> Option<f64> {
        self.number("timeout")
    }

    /// What a traced job had of it; None where the plan is not of a trace.
    pub fn in_job(&self) -> Option<JobCalls> {
        Some(JobCalls {
            calls: self.whole("trace_calls")?,
            steps: self.whole("trace_steps"),
            time_s: self.number("trace_s"),
            waiting_s: self.number("trace_waiting_s"),
            overlapped: self.whole("trace_overlapped").unwrap_or(0),
        })
    }

    /// What it is of: its first parameter where that is a word, as the operation or the model is; else its benchmark.
    pub fn subject(&self) -> &str {
        self.parameters.values().next().and_then(Value::as_str).unwrap_or(&self.benchmark)
    }

    /// In a few words: `all_reduce 64 KiB, 4 ranks`.
    pub fn label(&self) -> String {
        let size = self.bytes().map_or(String::new(), |bytes| format!(" {}", Bytes(bytes).short()));
        let ranks = self.ranks();
        format!("{}{size}, {ranks} rank{}", self.subject(), if ranks == 1 { "" } else { "s" })
    }

    fn count(&self, name: &str) -> Option<u32> {
        self.whole(name).and_then(|count| u32::try_from(count).ok())
    }
}

/// The names that these functions know, for a test of the declarations.
pub const SHARED_FIELDS: [&str; 30] = [
    "ranks",
    "threads",
    "bytes",
    "op",
    "dtype",
    "precision",
    "matmul",
    "backend",
    "runtime",
    "device",
    "bind",
    "env",
    "pace_bandwidth",
    "mode",
    "quick",
    "limits",
    "trials",
    "warmup",
    "iters",
    "steps",
    "target_precision",
    "max_seconds",
    "spacing",
    "timeout",
    "noise",
    "trace_calls",
    "trace_steps",
    "trace_s",
    "trace_waiting_s",
    "trace_overlapped",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_names_is_that_of_the_functions() {
        let functions = include_str!("shared_fields.rs").split("fn count").next().unwrap();
        let mut read: Vec<&str> = functions.match_indices("(\"").map(|(at, _)| &functions[at + 2..]).collect();
        read.iter_mut().for_each(|rest| *rest = rest.split('"').next().unwrap());
        // Neither defaults nor formats.
        read.retain(|name| !["native", "core"].contains(name) && !name.contains('{'));
        let (mut read, mut listed) = (read, SHARED_FIELDS.to_vec());
        read.sort_unstable();
        listed.sort_unstable();
        assert_eq!(read, listed);
    }

    #[test]
    fn a_label_says_what_how_large_and_how_many() {
        let text = r#"{"id": "", "benchmark": "collective", "parameters": {"op": "all_reduce", "bytes": 65536, "ranks": 4},
            "settings": {}, "world": {}, "caveats": [], "bytes_requested": null, "skip": null}"#;
        let case: Case = serde_json::from_str(text).unwrap();
        assert_eq!((case.label().as_str(), case.op()), ("all_reduce 64 KiB, 4 ranks", Some(Collective::AllReduce)));
        let bare = Case { parameters: serde_json::Map::new().into(), ..case };
        assert_eq!((bare.label().as_str(), bare.threads(), bare.bind()), ("collective, 1 rank", 1, "core"));
    }
}
