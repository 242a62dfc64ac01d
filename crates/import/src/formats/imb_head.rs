//! What the lines above the tables of the Intel MPI Benchmarks say: command lines, types, where the buffers were.

use terms::{Collective, Dtype, Reduce};

use super::command;
use super::imb_table::Timed;
use super::osu_rows::per_rank;
use crate::collective::MeasuredCall;

/// A command line, the shell's or the one that the head of a run repeats.
#[derive(Clone, Debug, Default)]
pub(super) struct Started {
    pub(super) ranks: Option<u32>,
    /// What stands before the program, and what behind it.
    pub(super) before: String,
    pub(super) options: String,
    pub(super) text: String,
}

/// What the head of a run says.
pub(super) struct Head {
    pub(super) tool: String,
    pub(super) facts: Vec<(String, String)>,
    pub(super) notes: Vec<String>,
    /// The shell's command line, and the one that the program repeats.
    pub(super) launched: Option<Started>,
    pub(super) repeated: Option<Started>,
    pub(super) device: &'static str,
    /// Types of what is reduced and of the rest.
    pub(super) reduced: Option<Dtype>,
    pub(super) other: Dtype,
    pub(super) reduce: Option<Reduce>,
    /// Whether the user lists the sizes of messages.
    pub(super) are_listed: bool,
    /// What the results that have begun time.
    pub(super) begun: Option<Timed>,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            tool: "Intel MPI Benchmarks".to_owned(),
            facts: Vec::new(),
            notes: Vec::new(),
            launched: None,
            repeated: None,
            device: "cpu",
            reduced: Some(Dtype::F32),
            other: Dtype::U8,
            reduce: Some(Reduce::Sum),
            are_listed: false,
            begun: None,
        }
    }
}

/// Options that tell what is measured, or that do not change how calls run.
const NO_METHOD: &[&str] = &[
    "-npmin",
    "-msglen",
    "-msglog",
    "-mem",
    "-input",
    "-include",
    "-exclude",
    "-time",
    "-data_type",
    "-red_data_type",
];

impl Started {
    /// A command line that names one of the programs, and whether that is the one for GPUs.
    pub(super) fn parse(bare: &str) -> Option<(Self, bool)> {
        let (at, name) = ["IMB-MPI1", "IMB-NBC"].iter().find_map(|name| Some((bare.rfind(name)?, name)))?;
        let (before, options) = (&bare[..at], &bare[at + name.len()..]);
        let is_gpu = options.starts_with("-GPU");
        let options = options.strip_prefix("-GPU").unwrap_or(options);
        let started = Self {
            ranks: command::processes(before),
            before: before.to_owned(),
            options: options.to_owned(),
            text: command::plain(bare),
        };
        Some((started, is_gpu))
    }
}

impl Head {
    /// What of the command lines decides how calls are timed.
    pub(super) fn method(&self) -> String {
        let before = self.launched.as_ref().or(self.repeated.as_ref()).map_or("", |it| &it.before);
        let options = self.repeated.as_ref().or(self.launched.as_ref()).map_or("", |it| &it.options);
        command::method(before, options, NO_METHOD)
    }

    /// The text of both command lines.
    pub(super) fn command(&self) -> String {
        let texts: Vec<&str> = [&self.launched, &self.repeated].into_iter().flatten().map(|it| &*it.text).collect();
        texts.join(": ")
    }

    /// Takes a command line, and where it has the buffers.
    pub(super) fn take(&mut self, started: Started, is_gpu: bool, is_shells: bool) {
        self.are_listed |= started.options.split_ascii_whitespace().any(|word| word == "-msglen");
        let memory = started.options.split_once("-mem_alloc_type ").map_or("", |(_, value)| value.trim_start());
        if is_gpu && !["host", "cpu"].iter().any(|word| memory.starts_with(word)) {
            self.on_gpus();
        } else if is_gpu {
            self.device = "cpu";
            self.notes.retain(|note| note != ON_GPUS);
        }
        *(if is_shells { &mut self.launched } else { &mut self.repeated }) = Some(started);
    }

    /// The call that a row of so many bytes times.
    pub(super) fn call(&self, op: Collective, ranks: u32, bytes: u64) -> Result<MeasuredCall, String> {
        let call = MeasuredCall::new(op, ranks, "mpi", self.device);
        let has_place = !matches!(op, Collective::PingPong | Collective::SendRecv | Collective::Barrier);
        let missing = "rankmark does not have its element type";
        let dtype = if op.reduces() { self.reduced.ok_or(missing)? } else { self.other };
        let reduce = if op.reduces() { Some(self.reduce.ok_or("rankmark does not have its reduction")?) } else { None };
        let bytes = bytes.checked_mul(if per_rank(op) { u64::from(ranks) } else { 1 });
        let bytes = bytes.ok_or("its size is too large")?;
        if bytes == 0 && op != Collective::Barrier {
            return Err("0 bytes: nothing moves".to_owned());
        }
        Ok(MeasuredCall { dtype, reduce, bytes, in_place: has_place.then_some(false), ..call })
    }

    /// Notes that buffers are in the memory of GPUs.
    pub(super) fn on_gpus(&mut self) {
        self.device = "gpu";
        if !self.notes.iter().any(|known| known == ON_GPUS) {
            self.notes.push(ON_GPUS.to_owned());
        }
    }
}

const ON_GPUS: &str = "the buffers were in the memory of GPUs; the file does not say which kind";
