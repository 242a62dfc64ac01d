//! What is kept of the events of a trace while it is read. Most events are small operations of the CPU and leave little.

use std::collections::HashMap;

use trace::timeline::{CollectiveCall, Kind, NO_CALL, NameId, Names, Span, synchronises};

use super::calls;
use super::launches::{Launch, Launches};
use crate::counted::counted;
use crate::traces::events::TraceEvent;
use crate::traces::words;

/// Spans of a device that are kept: 240 MB.
const MOST_SPANS: usize = 6_000_000;

/// Operations inside others that are kept: 100 MB.
const MOST_NESTED: usize = 4_000_000;

/// Names that are kept. A real trace has some thousand.
const MOST_NAMES: u32 = 1 << 18;

/// Exchanges that may end after the trace does.
const FEW_ENDLESS: u64 = 4;

/// Limit of threads and streams with queues of their own. A real trace has some hundred.
const MOST_THREADS: u32 = 1 << 16;

/// The outermost call of a module, as our own agent marks it.
const FORWARD: &[u8] = b"rankmark forward";

/// A stretch of time of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadMark {
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) thread: u32,
    /// Number of the step, where the mark is of a step.
    pub(super) number: u32,
    pub(super) name: NameId,
}

/// A stretch in which a thread runs an operation or a phase. Those of one thread nest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    pub(super) begin: i64,
    pub(super) end: i64,
    pub(super) frame: ThreadFrame,
}

/// What a thread may do between the operations inside a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadFrame {
    /// An operation, which works. It waits only for exchanges that it began.
    Operation,
    /// A phase of the step, such as a whole forward pass: it may wait for any exchange.
    Phase,
    /// Nothing: the operation is the wait for an exchange.
    Wait,
    /// Loading data, which waits for workers and files.
    Input,
}

/// Everything that is kept.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) names: Names,
    distinct: u32,
    threads: HashMap<Vec<u8>, u32>,
    key: Vec<u8>,
    /// `ProfilerStep#N`.
    pub(super) steps: Vec<ThreadMark>,
    /// `Optimizer.step#` and `Optimizer.zero_grad#`.
    pub(super) optimizer: Vec<ThreadMark>,
    pub(super) inputs: Vec<ThreadMark>,
    /// Forward passes of whole models.
    pub(super) forwards: Vec<ThreadMark>,
    /// Forward parts of FSDP, which nest.
    pub(super) parts: Vec<ThreadMark>,
    pub(super) autograd: Vec<ThreadMark>,
    /// By thread.
    pub(super) busy: Vec<Vec<Busy>>,
    /// By thread: when the last operation ends that is inside no other.
    outer: Vec<i64>,
    /// Operations inside others that are kept in `busy`.
    nested: usize,
    /// Exchanges that the host began: operations of torch.distributed.
    began: u64,
    /// What names the operations of kernels without a name of their own.
    pub(super) launches: Launches,
    /// Kernels, copies and collectives; `queue` is the thread here.
    pub(super) spans: Vec<Span>,
    pub(super) calls: Vec<CollectiveCall>,
    /// Ranks of the communicators of kernels, by their names, where a kernel lists all of them.
    members: HashMap<NameId, Vec<u32>>,
    /// Transfers that threads of the host run: begin, end, call. A kernel of NCCL keeps no thread of the host waiting.
    pub(super) transfers: Vec<(i64, i64, u32)>,
    pub(super) lost: u64,
    /// Calls of NCCL on the CPU, which end before the transfer begins.
    enqueued: u64,
    device_calls: u64,
    known: u64,
    negative: u64,
    timeless: u64,
}

/// What an event's category says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Operation,
    Annotation,
    Kernel,
    Copy,
    Other,
}

fn class(category: &[u8]) -> Option<Class> {
    let is = |word: &str| category.eq_ignore_ascii_case(word.as_bytes());
    Some(if is("cpu_op") || is("operator") {
        Class::Operation
    } else if is("user_annotation") {
        Class::Annotation
    } else if is("kernel") {
        Class::Kernel
    } else if ["gpu_memcpy", "gpu_memset", "memcpy", "memset"].into_iter().any(is) {
        Class::Copy
    } else if ["gpu_user_annotation", "cuda_runtime", "cuda_driver", "runtime"].into_iter().any(is) {
        Class::Other
    } else {
        return None;
    })
}

impl Collected {
    /// Whether no event was one of PyTorch's profiler.
    pub(super) fn is_empty(&self) -> bool {
        self.known == 0
    }

    /// Takes an event.
    pub(super) fn event(&mut self, event: &TraceEvent) {
        let Some(class) = class(&event.category).filter(|_| event.phase == b'X') else { return };
        self.known += 1;
        if class == Class::Other {
            self.launch(event);
            return;
        }
        let times = event.begin_ns.zip(event.duration_ns);
        let Some((begin, end)) = times.and_then(|(begin, duration)| Some((begin, begin.checked_add(duration)?))) else {
            self.timeless += 1;
            return;
        };
        if end < begin {
            self.negative += 1;
            return;
        }
        match class {
            Class::Kernel if event.name.starts_with(b"nccl") => {
                self.device_calls += 1;
                let call = calls::nccl(event, &mut self.names);
                self.list_members(event, call.group);
                self.launches.kernel(event, self.names.get(call.operation), self.calls.len());
                self.call(event, begin, end, call);
            }
            Class::Kernel => self.kernel(event, begin, end),
            Class::Copy => self.device(event, Kind::Copy, begin, end),
            _ => self.host(event, class == Class::Annotation, begin, end),
        }
    }

    /// Keeps the ranks of a communicator that the event of a kernel lists.
    fn list_members(&mut self, event: &TraceEvent, group: NameId) {
        if self.members.len() >= calls::MOST_GROUPS || self.members.contains_key(&group) {
            return;
        }
        let ranks = event.argument("Process Group Ranks").filter(|ranks| ranks.ends_with(']')).and_then(calls::listed);
        self.members.extend(ranks.filter(|ranks| !ranks.is_empty()).map(|ranks| (group, ranks)));
    }

    /// The communicators of kernels that list their ranks, by name.
    pub(super) fn take_members(&mut self) -> Vec<(String, Vec<u32>)> {
        let all = std::mem::take(&mut self.members).into_iter();
        let mut named: Vec<(String, Vec<u32>)> =
            all.map(|(group, ranks)| (self.names.get(group).to_owned(), ranks)).collect();
        named.sort_unstable();
        named
    }

    /// A kernel that NCCL's name is not on: it may communicate all the same.
    fn kernel(&mut self, event: &TraceEvent, begin: i64, end: i64) {
        let operation = words::operation_of_other_kernel(&event.name());
        if operation.is_some() || event.argument("Collective name").is_some_and(|word| !word.is_empty()) {
            self.device_calls += 1;
            let mut call = calls::nccl(event, &mut self.names);
            if let Some(operation) = operation {
                (call.operation, call.synchronises) = (self.names.intern(operation), synchronises(operation));
            }
            self.call(event, begin, end, call);
            return;
        }
        let place = self.spans.len();
        self.device(event, Kind::Kernel, begin, end);
        if self.spans.len() > place {
            self.launches.other_kernel(event, place);
        }
    }

    /// Sorts what a thread of the host does.
    fn host(&mut self, event: &TraceEvent, is_annotation: bool, begin: i64, end: i64) {
        let name = event.name.as_slice();
        if name.starts_with(b"gloo:") {
            let call = calls::gloo(event, &mut self.names);
            let number = self.calls.len() as u32;
            if self.call(event, begin, end, call) {
                self.transfers.push((begin, end, number));
            }
            return;
        }
        if name.starts_with(b"nccl:") {
            self.enqueued += 1;
            let (thread, call) = (self.thread(event), calls::enqueued(event, &mut self.names));
            self.launches.host(thread, [begin, end], call);
            return;
        }
        if name == b"record_param_comms" || is_symmetric_exchange(name) {
            let (thread, call) = (self.thread(event), calls::recorded(event, &mut self.names));
            self.launches.recorded(thread, [begin, end], call);
        }
        let step = name.strip_prefix(b"ProfilerStep#");
        let is_phase = [
            b"Optimizer.".as_slice(),
            b"enumerate(DataLoader)#",
            b"DistributedDataParallel.forward",
            FORWARD,
            b"FSDP::",
            b"FullyShardedDataParallel.",
        ]
        .iter()
        .any(|known| name.starts_with(known));
        // Other annotations are the user's and may enclose anything.
        if is_annotation && step.is_none() && !is_phase {
            return;
        }
        let thread = self.thread(event);
        let is_autograd = name.starts_with(b"autograd::engine::evaluate_function");
        let number = step.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        if step.is_none() {
            self.began += u64::from(name.starts_with(b"c10d::"));
            self.operation(thread, Busy { begin, end, frame: frame(name, is_phase) });
            if !is_phase && !is_autograd {
                return;
            }
        }
        // Names of autograd's functions are many, and the phase has its own.
        let label = if is_autograd { NameId(0) } else { self.name(event) };
        let mark = ThreadMark { begin, end, thread, number: number.unwrap_or(0), name: label };
        let list = match name {
            _ if is_autograd => &mut self.autograd,
            _ if step.is_some() => &mut self.steps,
            _ if name.starts_with(b"Optimizer.") => &mut self.optimizer,
            _ if name.starts_with(b"enumerate(DataLoader)#") && ends_input(name) => &mut self.inputs,
            _ if name.starts_with(b"DistributedDataParallel.forward") || name == FORWARD => &mut self.forwards,
            _ if is_forward_part(name) => &mut self.parts,
            _ => return,
        };
        match list.last_mut() {
            // Functions of autograd inside others need no mark of their own.
            Some(last) if is_autograd && last.thread == thread && last.begin <= begin && end <= last.end => {}
            _ => list.push(mark),
        }
    }

    /// Notes that a thread is busy. Where there is no room, operations inside others leave nothing.
    fn operation(&mut self, thread: u32, own: Busy) {
        let at = thread as usize;
        if self.busy.len() <= at {
            self.busy.resize_with(at + 1, Vec::new);
            self.outer.resize(at + 1, i64::MIN);
        }
        // Parents come first.
        let is_nested = own.begin < self.outer[at];
        if is_nested && self.nested >= MOST_NESTED {
            return;
        }
        self.nested += usize::from(is_nested);
        self.outer[at] = self.outer[at].max(own.end);
        self.busy[at].push(own);
    }

    /// A call that may put a kernel on a device.
    fn launch(&mut self, event: &TraceEvent) {
        let Some((correlation, begin)) = event.number("correlation").zip(event.begin_ns) else { return };
        if event.name.windows(12).any(|part| part == b"LaunchKernel") {
            let thread = self.thread(event);
            self.launches.launch(Launch { correlation, thread, begin });
        }
    }

    fn device(&mut self, event: &TraceEvent, kind: Kind, begin: i64, end: i64) {
        if self.spans.len() >= MOST_SPANS {
            self.lost += 1;
            return;
        }
        let (queue, name) = (self.thread(event), self.name(event));
        let span = Span { begin_ns: begin, end_ns: end, kind, queue, name, number: 0, collective: NO_CALL };
        self.spans.push(span);
    }

    /// Keeps a collective; false where there is no room.
    fn call(&mut self, event: &TraceEvent, begin: i64, end: i64, call: CollectiveCall) -> bool {
        if self.spans.len() >= MOST_SPANS {
            self.lost += 1;
            return false;
        }
        let (queue, collective) = (self.thread(event), self.calls.len() as u32);
        let (kind, name) = (Kind::Collective, call.operation);
        self.calls.push(call);
        self.spans.push(Span { begin_ns: begin, end_ns: end, kind, queue, name, number: 0, collective });
        true
    }

    fn name(&mut self, event: &TraceEvent) -> NameId {
        let name = event.name();
        if let Some(id) = self.names.find(&name) {
            return id;
        }
        if self.distinct >= MOST_NAMES {
            return self.names.intern("(other)");
        }
        self.distinct += 1;
        self.names.intern(&name)
    }

    /// The number of an event's thread or stream.
    fn thread(&mut self, event: &TraceEvent) -> u32 {
        self.key.clear();
        self.key.extend_from_slice(&event.process);
        self.key.push(0);
        self.key.extend_from_slice(&event.thread);
        if let Some(thread) = self.threads.get(&self.key) {
            return *thread;
        }
        let next = self.threads.len() as u32;
        if next >= MOST_THREADS {
            return MOST_THREADS;
        }
        self.threads.insert(self.key.clone(), next);
        next
    }

    /// Gives a communicator to calls that name none: the only one of the job, or a name that says that it has several.
    pub(super) fn name_group(&mut self, name: &str, ranks: Option<u32>) {
        let unknown = self.names.find(words::UNKNOWN_GROUP);
        let group = self.names.intern(name);
        for call in self.calls.iter_mut().filter(|call| Some(call.group) == unknown) {
            call.group = group;
            call.ranks = call.ranks.or(ranks);
        }
    }

    /// Exchanges that the host began, without an end in the trace: another library than gloo or NCCL runs them, or their kernels
    /// are not in the trace. A few may end outside of it.
    pub(super) fn endless(&self) -> u64 {
        if self.device_calls > 0 {
            return 0;
        }
        let missing = self.began.saturating_sub(self.transfers.len() as u64);
        if missing > FEW_ENDLESS.max(self.began / 20) { missing } else { 0 }
    }

    /// Says what was odd.
    pub(super) fn complain(&self, notes: &mut Vec<String>) {
        let mut say = |count: u64, [one, many]: [&str; 2], why: &str| {
            if count > 0 {
                notes.push(format!("{} left out: {why}", counted(count, one, many)));
            }
        };
        let events = ["event is", "events are"];
        say(self.negative, events, "an end before the beginning");
        say(self.timeless, events, "no time or no duration");
        say(self.lost, ["span is", "spans are"], "there is room for 6000000");
        if self.device_calls == 0 {
            let has_kernels = self.spans.iter().any(|span| span.kind == Kind::Kernel);
            let hint = if has_kernels { "" } else { " (hint: profile with ProfilerActivity.CUDA)" };
            say(
                self.enqueued,
                ["call of NCCL is", "calls of NCCL are"],
                &format!("a call on the CPU only enqueues, and the trace has no kernel of NCCL{hint}"),
            );
        }
        if self.nested >= MOST_NESTED && !self.transfers.is_empty() {
            notes.push(format!("waits inside operations are not shown after the first {MOST_NESTED} of these"));
        }
        if self.distinct >= MOST_NAMES {
            notes.push(format!("names after the first {MOST_NAMES} are shown as `(other)`"));
        }
        if self.threads.len() as u32 >= MOST_THREADS {
            notes.push(format!("threads after the first {MOST_THREADS} are shown as one"));
        }
    }
}

/// What a stretch of this name is.
fn frame(name: &[u8], is_phase: bool) -> ThreadFrame {
    let waits = [&b"wait_tensor"[..], b"c10d::monitored_barrier_"];
    if name.starts_with(b"enumerate(DataLoader)#") {
        ThreadFrame::Input
    } else if is_phase {
        ThreadFrame::Phase
    } else if waits.iter().any(|known| name.ends_with(known)) {
        ThreadFrame::Wait
    } else {
        ThreadFrame::Operation
    }
}

/// Whether all kernels that an operation launches communicate. One that also multiplies matrices launches those kernels, too.
fn is_symmetric_exchange(name: &[u8]) -> bool {
    name.starts_with(b"symm_mem::") && std::str::from_utf8(name).is_ok_and(words::is_symmetric_exchange)
}

fn ends_input(name: &[u8]) -> bool {
    name.ends_with(b".__next__")
}

/// Parts of FSDP's forward pass: FSDP2 marks its hooks, FSDP1 the whole pass of each module.
fn is_forward_part(name: &[u8]) -> bool {
    match name.strip_prefix(b"FSDP::") {
        Some(part) => {
            [&b"pre_forward"[..], b"post_forward", b"root_pre_forward"].iter().any(|known| part.starts_with(known))
        }
        None => name.starts_with(b"FullyShardedDataParallel.forward"),
    }
}
