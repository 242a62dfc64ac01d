//! Stretches of buffers that hold a pattern: filling them and comparing them, at the speed of memory copies.
//!
//! Buffers may be mapped by other processes: only raw pointers touch them, and only in phases in which no operation
//! is in flight.

use std::sync::Arc;

use comm::{Counts, blocks};
use device::Slice;
use device::cuda::{CudaError, Gpu, Repeated};
use measure::{Failure, WrongReport};
use record::WrongElement;
use terms::{Collective, Direction, Dtype};

use super::number::show;
use super::pattern::PERIOD;
use super::table::PeriodTable;

/// How many wrong elements a rank tells of; it counts all.
pub(crate) const TOLD: usize = 8;

/// `len` bytes from `offset` hold the table, beginning at its element `phase`.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) table: Arc<PeriodTable>,
    pub(crate) phase: u64,
}

impl Segment {
    /// Calls `visit(bytes from the segment's start, table bytes)` for each stretch up to the end of a piece of the table.
    fn stretches(&self, mut visit: impl FnMut(usize, &[u8])) {
        let element = self.table.element();
        let mut at = self.phase as usize % PERIOD;
        let mut done = 0;
        while done < self.len {
            let bytes = self.table.read(at);
            let length = bytes.len().min(self.len - done);
            visit(done, &bytes[..length]);
            done += length;
            at = (at + length / element) % PERIOD;
        }
    }
}

impl Segment {
    /// The part of `buffer` that this segment covers.
    fn of(&self, buffer: &Slice) -> Slice {
        buffer.slice(self.offset, self.len).expect("a segment lies inside its buffer")
    }

    /// What it holds, in memory of this GPU.
    fn repeated(&self, gpu: &Arc<Gpu>) -> Result<Repeated<'_>, Failure> {
        let table = self.table.on(gpu).map_err(refused)?;
        Ok(Repeated { table, element: self.table.element(), phase: self.phase as usize % PERIOD })
    }

    /// An element of memory of a GPU that differs, by its index in the segment.
    #[cold]
    fn wrong(&self, buffer: &Slice, index: u64, dtype: Dtype, rank: u32) -> Result<WrongElement, Failure> {
        let element = dtype.bytes() as usize;
        let at = self.offset + index as usize * element;
        let mut got = vec![0; element];
        buffer.slice(at, element).expect("a kernel looks inside its buffer").read(&mut got).map_err(refused)?;
        let expected = self.table.read((self.phase + index) as usize % PERIOD);
        let (expected, got) = (show(dtype, &expected[..element]), show(dtype, &got));
        Ok(WrongElement { rank, index: (at / element) as u64, expected, got })
    }
}

/// An error of the driver as it is reported to the coordinator.
fn refused(error: CudaError) -> Failure {
    Failure::new(error.to_string())
}

/// A copy of `buffer` in memory of the host.
pub(crate) fn read(buffer: &Slice) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; buffer.len()];
    if buffer.gpu().is_some() {
        buffer.read(&mut bytes).map_err(refused)?;
        return Ok(bytes);
    }
    // SAFETY: the slice lies inside its region, and no operation is in flight.
    unsafe { std::ptr::copy_nonoverlapping(buffer.ptr(), bytes.as_mut_ptr(), bytes.len()) };
    Ok(bytes)
}

/// Fills `buffer` with a byte.
pub(crate) fn poison(buffer: &Slice, byte: u8) -> Result<(), Failure> {
    if buffer.gpu().is_some() {
        return buffer.set(byte).map_err(refused);
    }
    // SAFETY: the slice lies inside its region, and no operation is in flight.
    unsafe { std::ptr::write_bytes(buffer.ptr(), byte, buffer.len()) };
    Ok(())
}

/// Writes the segments into `buffer`, whose calls may follow at once: a GPU runs them in order.
pub(crate) fn fill(buffer: &Slice, segments: &[Segment]) -> Result<(), Failure> {
    for segment in segments {
        if let Some(gpu) = buffer.gpu() {
            segment.of(buffer).fill(segment.repeated(gpu)?).map_err(refused)?;
            continue;
        }
        assert!(segment.offset + segment.len <= buffer.len(), "a segment lies inside its buffer");
        segment.stretches(|done, bytes| {
            // SAFETY: inside the buffer by the assertion above; no operation is in flight, so nobody else touches it.
            unsafe {
                let to = buffer.ptr().add(segment.offset + done);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            }
        });
    }
    Ok(())
}

/// Compares all elements of the segments with `buffer`.
pub(crate) fn compare(
    buffer: &Slice,
    segments: &[Segment],
    dtype: Dtype,
    rank: u32,
    report: &mut WrongReport,
) -> Result<(), Failure> {
    let element = dtype.bytes() as usize;
    for segment in segments {
        if let Some(gpu) = buffer.gpu() {
            let found = segment.of(buffer).compare(segment.repeated(gpu)?).map_err(refused)?;
            report.compared += (segment.len / element) as u64;
            report.count += found.wrong;
            for index in found.first.into_iter().take(TOLD.saturating_sub(report.first.len())) {
                report.first.push(segment.wrong(buffer, index, dtype, rank)?);
            }
            continue;
        }
        assert!(segment.offset + segment.len <= buffer.len(), "a segment lies inside its buffer");
        report.compared += (segment.len / element) as u64;
        segment.stretches(|done, expected| {
            let start = segment.offset + done;
            // SAFETY: inside the buffer by the assertion above; no operation is in flight.
            let equal =
                unsafe { libc::memcmp(buffer.ptr().add(start).cast(), expected.as_ptr().cast(), expected.len()) } == 0;
            if !equal {
                let mut got = vec![0u8; expected.len()];
                // SAFETY: the stretch lies inside the buffer, and no operation is in flight.
                unsafe { std::ptr::copy_nonoverlapping(buffer.ptr().add(start), got.as_mut_ptr(), got.len()) };
                count_wrong(&got, expected, (start / element) as u64, dtype, rank, report);
            }
        });
    }
    Ok(())
}

/// Counts and names the wrong elements of one stretch, whose first element has this index.
#[cold]
fn count_wrong(got: &[u8], expected: &[u8], first: u64, dtype: Dtype, rank: u32, report: &mut WrongReport) {
    let element = dtype.bytes() as usize;
    for ((got, expected), index) in got.chunks(element).zip(expected.chunks(element)).zip(first..) {
        // As bytes: -0.0 is not 0.0, and one NaN is not another, where the result is known bit for bit.
        if got != expected {
            report.count += 1;
            if report.first.len() < TOLD {
                let (expected, got) = (show(dtype, expected), show(dtype, got));
                report.first.push(WrongElement { rank, index, expected, got });
            }
        }
    }
}

/// Compares all elements of an output in memory of the caller's own.
pub(crate) fn compare_bytes(got: &[u8], expected: &[u8], dtype: Dtype, rank: u32, report: &mut WrongReport) {
    report.compared += expected.len() as u64 / dtype.bytes();
    if got != expected {
        count_wrong(got, expected, 0, dtype, rank, report);
    }
}

/// Where this rank's output comes from, for operations that move data without reducing it. Layouts as in [`comm::extents`].
pub(crate) struct Moves<'a> {
    pub(crate) op: Collective,
    pub(crate) count: u64,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) peer: u32,
    pub(crate) direction: Direction,
    pub(crate) counts: Option<&'a Counts>,
    pub(crate) element: usize,
}

/// So many elements of a rank's output, which are those of another's input from `phase` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) at: u64,
    pub(crate) elements: u64,
    pub(crate) from: u32,
    pub(crate) phase: u64,
}

impl Moves<'_> {
    /// The expected output, where `table(rank)` is a rank's input; empty where the rank gets nothing.
    pub(crate) fn output(&self, table: impl Fn(u32) -> Arc<PeriodTable>) -> Vec<Segment> {
        let segment = |Moved { at, elements, from, phase }| Segment {
            offset: at as usize * self.element,
            len: elements as usize * self.element,
            table: table(from),
            phase,
        };
        self.pieces().into_iter().map(segment).collect()
    }

    /// The pieces of the expected output.
    pub(crate) fn pieces(&self) -> Vec<Moved> {
        let Self { rank, ranks, peer, count, .. } = *self;
        let block = count / blocks(self.op, self.direction, ranks);
        let piece = |at: u64, elements: u64, from: u32, phase: u64| Moved { at, elements, from, phase };
        let (previous, next) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        match self.op {
            Collective::Broadcast => vec![piece(0, count, peer, 0)],
            Collective::AllGather => (0..ranks).map(|from| piece(u64::from(from) * block, block, from, 0)).collect(),
            Collective::Gather if rank == peer => {
                (0..ranks).map(|from| piece(u64::from(from) * block, block, from, 0)).collect()
            }
            Collective::Scatter => vec![piece(0, block, peer, u64::from(rank) * block)],
            Collective::AllToAll => {
                let piece = |from: u32| piece(u64::from(from) * block, block, from, u64::from(rank) * block);
                (0..ranks).map(piece).collect()
            }
            Collective::AllToAllV => self.counts.map_or_else(Vec::new, |counts| {
                let piece = |from: u32| {
                    let (at, phase) = (counts.receive_offset(from, rank), counts.send_offset(from, rank));
                    piece(at, counts.get(from, rank), from, phase)
                };
                (0..ranks).map(piece).collect()
            }),
            Collective::SendRecv if self.direction == Direction::BothWays => {
                vec![piece(0, block, previous, 0), piece(block, block, next, block)]
            }
            Collective::SendRecv => vec![piece(0, count, previous, 0)],
            Collective::PingPong if ranks == 1 => vec![piece(0, count, 0, 0)],
            Collective::PingPong if rank == 0 => vec![piece(0, count, peer, 0)],
            Collective::PingPong if rank == peer => vec![piece(0, count, 0, 0)],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::number::Number;
    use super::*;
    use device::Region;

    #[test]
    fn comparison_names_rank_index_expected_and_got() {
        let table = Arc::new(PeriodTable::new(Dtype::U8, |index| Number::Whole((index % 200) as i64)));
        // Over the end of the period and that of a piece.
        let phase = PERIOD as u64 - 4;
        let length = 2 * PERIOD + 7;
        let segments = [Segment { offset: 2, len: length, table, phase }];
        let region = Region::host(3 * PERIOD).unwrap();
        let buffer = region.whole();
        fill(&buffer, &segments).unwrap();
        let mut report = WrongReport::default();
        compare(&buffer, &segments, Dtype::U8, 3, &mut report).unwrap();
        assert_eq!((report.count, report.compared), (0, length as u64));
        // SAFETY: the bytes lie inside the region, and only this thread uses it.
        let held = (0..length).map(|i| unsafe { *buffer.ptr().add(2 + i) });
        let expected = (0..length).map(|i| ((phase as usize + i) % PERIOD % 200) as u8);
        assert!(held.eq(expected), "each element where the period has it");
        // SAFETY: byte 4 lies inside the region, and only this thread uses it.
        unsafe { *buffer.ptr().add(4) = 77 };
        compare(&buffer, &segments, Dtype::U8, 3, &mut report).unwrap();
        let wrong = WrongElement { rank: 3, index: 4, expected: "189".into(), got: "77".into() };
        assert_eq!((report.count, report.first.as_slice()), (1, &[wrong][..]));
    }
}
