//! Bandwidths that nccl-tests prints: whether they are those of size and time, and which operation they fit.

use terms::{Bytes, Collective, Seconds};

use super::nccl::{Half, Printed, RawLine};
use crate::collective::MeasuredCall;

/// What is odd about the printed bandwidths: not ours of the same size and time, within rounding.
pub(super) fn disagreement(half: &Half, call: &MeasuredCall) -> Option<String> {
    let at = |us: f64| call.op.algbw_gbs(Bytes(call.bytes), Seconds(us * 1e-6));
    let Printed { value: time, within } = half.time_us;
    let (low, high) = (at(time + within)?, at((time - within).max(time * 1e-3))?);
    let factor = call.op.bus_factor(call.ranks);
    let fits = |printed: Printed, factor: f64| {
        let slack = printed.within * 1.01 + 1e-9 + high * factor * 1e-6;
        printed.value >= low * factor - slack && printed.value <= high * factor + slack
    };
    // Before 2.4, the algbw of these two is their busbw.
    let old = matches!(call.op, Collective::AllGather | Collective::ReduceScatter) && fits(half.algbw, factor);
    if !fits(half.algbw, 1.0) && !old {
        let ours = at(time)?;
        return Some(format!("its algbw of {} GB/s is not size / time, {ours:.2} GB/s", half.algbw.value));
    }
    if !fits(half.busbw, factor) {
        let ours = at(time)? * factor;
        let ranks = call.ranks;
        return Some(format!("its busbw of {} GB/s is not that of {ranks} ranks, {ours:.2} GB/s", half.busbw.value));
    }
    None
}

/// The operation that alone fits the columns and busbw / algbw.
pub(super) fn derive(rows: &[RawLine<'_>], ranks: u32) -> Option<Collective> {
    let largest = rows
        .iter()
        .filter_map(|row| Some((row, row.halves[0].or(row.halves[1])?)))
        .max_by(|a, b| a.1.algbw.value.total_cmp(&b.1.algbw.value));
    let (row, half) = largest.filter(|(_, half)| half.algbw.value >= 0.5 && ranks > 1)?;
    let ratio = half.busbw.value / half.algbw.value;
    let slack = 3.0 * (half.busbw.within + half.algbw.within) / half.algbw.value;
    let n = f64::from(ranks);
    let is = |factor: f64| (ratio - factor).abs() <= slack;
    let (ring, share, one) = (is(2.0 * (n - 1.0) / n), is((n - 1.0) / n), is(1.0));
    let has_root = row.root.is_some_and(|root| root >= 0);
    match (row.reduction.is_some(), has_root) {
        (true, true) if one => Some(Collective::Reduce),
        (false, true) if one && !share => Some(Collective::Broadcast),
        // Sends in a ring have factor 1 and name a reduction, too.
        (true, false) if [ring, share, one] == [true, false, false] => Some(Collective::AllReduce),
        (true, false) if [ring, share, one] == [false, true, false] => Some(Collective::ReduceScatter),
        // Only all_to_all leaves its in-place result unchecked.
        (false, false) if share && !one && half.wrong.is_some() => row.halves[1]?.wrong.map(|_| Collective::AllGather),
        _ => None,
    }
}
