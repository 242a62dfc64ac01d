//! The operation of a kernel of NCCL where its name does not say it: that of the call on the host that launched it.

use std::collections::HashMap;

use trace::timeline::{CollectiveCall, Kind, NameId, Names, Span};

use crate::traces::events::TraceEvent;
use crate::traces::words::SEND_RECV_KERNEL;

/// Launches that are kept: 96 MB.
const MOST: usize = 4_000_000;

/// A call that puts a kernel on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// Number that the launch and its kernel have in common.
    pub(super) correlation: u64,
    pub(super) thread: u32,
    pub(super) begin: i64,
}

/// Calls of the host, and the kernels that they put on devices.
#[derive(Default)]
pub(super) struct Launches {
    all: Vec<Launch>,
    /// Thread, begin and end of calls of NCCL.
    host: Vec<(u32, [i64; 2], CollectiveCall)>,
    /// Kernels of NCCL that name no operation: correlation, and the index of the call.
    unnamed: Vec<(u64, usize)>,
    /// Thread, begin and end of record functions of collectives.
    recorded: Vec<(u32, [i64; 2], CollectiveCall)>,
    /// Kernels that no name says to communicate: correlation, and the index of the span.
    others: Vec<(u64, usize)>,
}

impl Launches {
    pub(super) fn launch(&mut self, launch: Launch) {
        if self.all.len() < MOST {
            self.all.push(launch);
        }
    }

    pub(super) fn host(&mut self, thread: u32, stretch: [i64; 2], call: CollectiveCall) {
        if self.host.len() < MOST {
            self.host.push((thread, stretch, call));
        }
    }

    pub(super) fn recorded(&mut self, thread: u32, stretch: [i64; 2], call: CollectiveCall) {
        if self.recorded.len() < MOST {
            self.recorded.push((thread, stretch, call));
        }
    }

    /// Notes a kernel that may be a collective's because of where it was launched.
    pub(super) fn other_kernel(&mut self, event: &TraceEvent, span: usize) {
        if self.others.len() < MOST {
            self.others.extend(event.number("correlation").map(|correlation| (correlation, span)));
        }
    }

    /// Makes collectives of the kernels that the record function of one launched, whatever their names are.
    pub(super) fn collectives(&mut self, calls: &mut Vec<CollectiveCall>, spans: &mut [Span]) {
        if self.recorded.is_empty() {
            return;
        }
        self.recorded.sort_by_key(|(thread, [begin, _], _)| (*thread, *begin));
        let kernels: HashMap<u64, usize> = self.others.drain(..).collect();
        for launch in &self.all {
            let Some(at) = kernels.get(&launch.correlation) else { continue };
            let Some((span, call)) = spans.get_mut(*at).zip(calling(&self.recorded, launch)) else { continue };
            (span.kind, span.name, span.collective) = (Kind::Collective, call.operation, calls.len() as u32);
            calls.push(*call);
        }
    }

    /// Notes a kernel if its name tells no operation.
    pub(super) fn kernel(&mut self, event: &TraceEvent, operation: &str, call: usize) {
        if matches!(operation, SEND_RECV_KERNEL | "unknown") {
            self.unnamed.extend(event.number("correlation").map(|correlation| (correlation, call)));
        }
    }

    /// Gives these kernels the operation and the size of the call that launched them.
    pub(super) fn name(&mut self, calls: &mut [CollectiveCall], spans: &mut [Span], names: &mut Names) {
        if self.unnamed.is_empty() {
            return;
        }
        self.host.sort_by_key(|(thread, [begin, _], _)| (*thread, *begin));
        let wanted: HashMap<u64, usize> = self.unnamed.iter().copied().collect();
        let mut named: HashMap<u32, NameId> = HashMap::new();
        for launch in &self.all {
            let Some(at) = wanted.get(&launch.correlation) else { continue };
            let Some((call, of_host)) = calls.get_mut(*at).zip(calling(&self.host, launch)) else { continue };
            // A batch of any calls is one kernel; what they are is not known from it.
            if names.get(of_host.operation) == "coalesced" {
                continue;
            }
            (call.operation, call.synchronises) = (of_host.operation, of_host.synchronises);
            call.bytes = call.bytes.or(of_host.bytes);
            call.input_bytes = call.input_bytes.or(of_host.input_bytes);
            call.dtype = call.dtype.or(of_host.dtype);
            named.insert(*at as u32, call.operation);
        }
        let rest = self.transfers(names).map(|operation| names.intern(operation));
        for (_, at) in self.unnamed.iter().filter(|(_, at)| !named.contains_key(&(*at as u32))) {
            let Some((call, operation)) = calls.get_mut(*at).zip(rest) else { continue };
            if names.get(call.operation) == SEND_RECV_KERNEL {
                call.operation = operation;
            }
        }
        for (_, at) in &self.unnamed {
            named.extend(calls.get(*at).map(|call| (*at as u32, call.operation)));
        }
        for span in spans {
            if let Some(name) = named.get(&span.collective) {
                span.name = *name;
            }
        }
    }

    /// What kernels that send and receive are where no launch says it: transfers, if the host calls these and no all_to_all.
    fn transfers(&self, names: &Names) -> Option<&'static str> {
        let has = |word: &str| self.host.iter().any(|(.., call)| names.get(call.operation).starts_with(word));
        ((has("send") || has("recv")) && !has("all_to_all")).then_some("send_recv")
    }
}

/// The call of the host in which a launch lies, of calls by thread and begin.
fn calling<'c>(calls: &'c [(u32, [i64; 2], CollectiveCall)], launch: &Launch) -> Option<&'c CollectiveCall> {
    let after = calls.partition_point(|(thread, [begin, _], _)| (*thread, *begin) <= (launch.thread, launch.begin));
    let (thread, [_, end], call) = calls.get(after.checked_sub(1)?)?;
    (*thread == launch.thread && launch.begin < *end).then_some(call)
}
