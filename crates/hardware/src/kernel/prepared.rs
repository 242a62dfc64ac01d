//! A kernel case on one rank: copies of its buffers, a call, and the check of what calls left.

use std::sync::Arc;

use comm::Communicator;
use contract::{Prepared, RankContext, Work};
use engine::{Device, Host, Loaded, Memory, OperationShape, Sample};
use measure::{Failure, WrongReport};
use record::WrongElement;
use terms::Named;

use super::check::Kept;
use super::fields::KernelFields;
use super::plain;

/// Buffers begin at multiples of so many bytes, as those of a step do.
const ALIGNED: usize = 64;
/// Copies at most: more say nothing more about caches, and take long to fill.
const MOST_COPIES: usize = 256;

/// Wrong elements that are told one by one.
const FIRST: usize = 4;

/// An operation that is ready.
struct PreparedKernel {
    rank: u32,
    sample: Sample,
    copies: Vec<Box<dyn Loaded>>,
    /// Calls since the last refill.
    calls: u64,
    /// Fresh inputs.
    fresh: Kept,
    /// What one call leaves of them.
    expected: Kept,
    shape: OperationShape,
    multiplier: &'static str,
    /// Why fresh inputs could not be had, until somebody can be told.
    unready: Option<Failure>,
}

/// Bytes of one copy of the buffers.
pub(super) fn bytes(sample: &Sample) -> usize {
    sample.program.buffers.iter().map(|buffer| buffer.bytes().next_multiple_of(ALIGNED)).sum()
}

/// How many copies calls rotate through.
pub(super) fn copies(fields: &KernelFields, sample: &Sample) -> usize {
    (fields.rotate as usize).div_ceil(bytes(sample).max(1)).clamp(1, MOST_COPIES)
}

fn of_engine(error: engine::Error) -> Failure {
    match error {
        engine::Error::Memory { .. } | engine::Error::Lacking(_) | engine::Error::Threads { .. } => {
            Failure::lacking(error.to_string())
        }
        other => Failure::new(other.to_string()),
    }
}

/// Allocates and fills all copies, and makes sure that the operation computes what it says.
///
/// # Errors
/// What could not be had; an operation that computes something else.
pub(super) fn prepare(
    fields: &KernelFields,
    sample: Sample,
    context: &RankContext,
) -> Result<Box<dyn Prepared>, Failure> {
    let cores = context.thread_cores(fields.threads.unwrap_or(1) as usize);
    Ok(Box::new(made(fields, sample, &cores, context.rank)?))
}

/// The kernel on these cores.
fn made(fields: &KernelFields, sample: Sample, cores: &[u32], rank: u32) -> Result<PreparedKernel, Failure> {
    let host = Host::new(fields.threads.unwrap_or(1) as usize, cores, fields.matmul).map_err(of_engine)?;
    let count = copies(fields, &sample);
    let mut copies = (0..count).map(|_| load(&sample, &host, fields.seed)).collect::<Result<Vec<_>, Failure>>()?;
    let (fresh, expected) = expected(&sample, &mut *copies[0], fields)?;
    let shape = OperationShape::of(&sample.program, sample.op());
    let multiplier = match shape.flops > 0.0 {
        true => engine::multiplier_of(sample.op(), fields.dtype, fields.matmul).name(),
        false => "",
    };
    let (calls, unready) = (0, None);
    let mut kernel = PreparedKernel { rank, sample, copies, calls, fresh, expected, shape, multiplier, unready };
    kernel.refill();
    Ok(kernel)
}

/// One copy of the buffers, in memory of its own.
fn load(sample: &Sample, host: &Host, seed: u64) -> Result<Box<dyn Loaded>, Failure> {
    let region = host.alloc(bytes(sample)).map_err(of_engine)?;
    let mut begin = 0;
    let mut places = Vec::with_capacity(sample.program.buffers.len());
    for buffer in &sample.program.buffers {
        let place = region.slice(begin, buffer.bytes());
        places.push(place.ok_or_else(|| Failure::new("a buffer lies outside of its memory"))?);
        begin += buffer.bytes().next_multiple_of(ALIGNED);
    }
    let memory = Memory::new(&sample.program.buffers, places);
    host.load(&Arc::new(sample.program.clone()), memory, seed).map_err(of_engine)
}

/// Fresh inputs, and what a call leaves of them; compared with a plain computation where there is one, and with what a call leaves
/// of other inputs.
fn expected(sample: &Sample, loaded: &mut dyn Loaded, fields: &KernelFields) -> Result<(Kept, Kept), Failure> {
    let call = |loaded: &mut dyn Loaded, seed: u64| -> Result<(Kept, Kept), Failure> {
        // SAFETY: nothing else is given to the copy, and its program has no exchange.
        unsafe { sample.fill(loaded, seed) }.map_err(of_engine)?;
        let fresh = Kept::read(sample.filled(), loaded).map_err(of_engine)?;
        run(loaded)?;
        let left = Kept::read(sample.written().iter().copied(), loaded).map_err(of_engine)?;
        match left.not_finite(sample) {
            Some(at) => Err(Failure::new(format!("{} leaves element {at} without a number", fields.kernel))),
            None => Ok((fresh, left)),
        }
    };
    let (_, other) = call(loaded, fields.seed + 1)?;
    let before = plain::Before::new(sample, loaded, fields.seed).map_err(of_engine)?;
    let (fresh, left) = call(loaded, fields.seed)?;
    if left == other && sample.depends_on_inputs() {
        return Err(Failure::new(format!("{} leaves the same of other inputs", fields.kernel)));
    }
    let wrong = before.compare(sample, loaded, fields.dtype).map_err(of_engine)?;
    wrong.map_or(Ok((fresh, left)), |why| Err(Failure::new(why)))
}

/// One call.
fn run(loaded: &mut dyn Loaded) -> Result<(), Failure> {
    let pool = loaded.pool();
    // SAFETY: a sample's views do not overlap, and nobody else uses its memory.
    pool.install(|| unsafe { loaded.run(0..1, 1) }).map_err(of_engine)
}

impl PreparedKernel {
    /// Calls that a copy has had since the last refill.
    fn calls_of(&self, copy: usize, calls: u64) -> u64 {
        let copies = self.copies.len() as u64;
        calls / copies + u64::from((copy as u64) < calls % copies)
    }

    /// Elements of a copy that are not what so many calls leave, and the first of them: bit by bit; where each call goes on from the
    /// one before, after more than one only whether numbers are finite.
    fn wrong(&self, copy: &dyn Loaded, calls: u64) -> Result<(u64, Option<u64>), engine::Error> {
        if calls == 0 {
            return Ok((0, None));
        }
        if calls == 1 || self.sample.is_idempotent() {
            return self.expected.different(&self.sample, copy);
        }
        let first = Kept::read(self.sample.written().iter().copied(), copy)?.not_finite(&self.sample);
        Ok((u64::from(first.is_some()), first))
    }

    /// What of all copies is not as so many calls leave it.
    fn report(&self, calls: u64) -> Result<WrongReport, Failure> {
        let mut report = WrongReport::default();
        for (number, copy) in self.copies.iter().enumerate() {
            let of_copy = self.calls_of(number, calls);
            let (wrong, first) = self.wrong(&**copy, of_copy).map_err(of_engine)?;
            report.compared += if of_copy > 0 { self.expected.elements() } else { 0 };
            report.count += wrong;
            if let Some(index) = first {
                report.first.push(WrongElement {
                    rank: self.rank,
                    index,
                    expected: "what a call leaves of the same inputs".to_owned(),
                    got: format!("something else, after {of_copy} calls in copy {number}"),
                });
            }
        }
        report.first.truncate(FIRST);
        Ok(report)
    }
}

impl Prepared for PreparedKernel {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        if let Some(failure) = self.unready.take() {
            return Err(failure);
        }
        let copy = (self.calls % self.copies.len() as u64) as usize;
        self.calls += 1;
        run(&mut *self.copies[copy])
    }

    fn refill(&mut self) {
        self.calls = 0;
        let filled = self.copies.iter_mut().try_for_each(|copy| self.fresh.put(&mut **copy));
        self.unready = filled.err().map(of_engine);
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.report(calls)
    }

    fn work(&self) -> Work {
        Work {
            flops: self.shape.flops,
            max_calls: u64::MAX,
            copies: self.copies.len() as u64,
            checks: 1,
            ..Work::default()
        }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        self.multiplier.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use record::plan::from_flags;

    use super::super::about::ABOUT;
    use super::*;

    fn kernel(flags: &[(&str, &str)]) -> PreparedKernel {
        let case = from_flags(&ABOUT, flags, &[]).unwrap().cases.remove(0);
        let fields = KernelFields::of(&case).unwrap();
        let sample = fields.sample().unwrap();
        made(&fields, sample, &[], 0).unwrap()
    }

    /// So many calls, as they are timed.
    fn called(kernel: &mut PreparedKernel, calls: u64) -> WrongReport {
        kernel.refill();
        for _ in 0..calls {
            let copy = (kernel.calls % kernel.copies.len() as u64) as usize;
            kernel.calls += 1;
            run(&mut *kernel.copies[copy]).unwrap();
        }
        kernel.report(calls).unwrap()
    }

    #[test]
    fn calls_rotate_through_copies_and_each_is_checked() {
        let mut three = kernel(&[("kernel", "norm_forward"), ("dims", "4x16x1"), ("rotate", "2KiB")]);
        let copies = three.copies.len() as u64;
        assert!(copies > 2, "{copies}");
        let elements = 4 * 16 + 2 * 4;
        for (calls, compared) in
            [(0, 0), (1, elements), (copies, copies * elements), (5 * copies + 1, copies * elements)]
        {
            let report = called(&mut three, calls);
            assert_eq!((report.count, report.compared), (0, compared), "{calls} calls");
        }
    }

    #[test]
    fn one_wrong_bit_shows() {
        for (name, dims, calls) in [("gelu_forward", "64x0", 3), ("adamw", "64x0", 1), ("product_nt", "8x8x8x0x4", 1)] {
            let mut one = kernel(&[("kernel", name), ("dims", dims)]);
            assert_eq!(called(&mut one, calls).count, 0, "{name}");
            let view = one.sample.written()[0];
            let mut bytes = Vec::new();
            // SAFETY: nothing runs.
            unsafe { one.copies[0].read(view, &mut |all| bytes = all.to_vec()) }.unwrap();
            bytes[4 * 7] ^= 1;
            // SAFETY: nothing runs.
            unsafe { one.copies[0].write(view, &mut |all| all.copy_from_slice(&bytes)) }.unwrap();
            let report = one.report(calls).unwrap();
            assert_eq!((report.count, report.first[0].index), (1, 7), "{name}");
        }
    }

    #[test]
    fn what_goes_on_from_call_to_call_stays_finite_or_is_wrong() {
        let mut adding = kernel(&[("kernel", "add_bias"), ("dims", "4x16")]);
        assert_eq!(called(&mut adding, 9).count, 0);
        let view = adding.sample.written()[0];
        // SAFETY: nothing runs.
        unsafe { adding.copies[0].put::<f32>(view, |all| all[5] = f32::NAN) }.unwrap();
        let report = adding.report(9).unwrap();
        assert_eq!((report.count, report.first[0].index), (1, 5));
    }

    #[test]
    fn a_wrong_product_is_no_product() {
        for (name, dims, row) in [("product_tn", "9x5x7x1x4", 0), ("attention_forward", "1x6x2x1x8x1", 0)] {
            let one = kernel(&[("kernel", name), ("dims", dims)]);
            let PreparedKernel { sample, mut copies, .. } = one;
            let before = plain::Before::new(&sample, &mut *copies[0], 1).unwrap();
            run(&mut *copies[0]).unwrap();
            assert_eq!(before.compare(&sample, &*copies[0], terms::Dtype::F32).unwrap(), None, "{name}");
            let view = sample.written()[row];
            // SAFETY: nothing runs.
            unsafe { copies[0].put::<f32>(view, |all| all.iter_mut().for_each(|one| *one += 0.01)) }.unwrap();
            let why = before.compare(&sample, &*copies[0], terms::Dtype::F32).unwrap();
            assert!(why.is_some_and(|why| why.contains("not")), "{name}");
        }
    }
}
