//! A rank's GPU: products by cuBLASLt and kernels over rows, on the device's own stream or on one beside it.
//!
//! Communication has the device's own stream. An implementation that overlaps computes on another one: `fork` at the beginning of a
//! call and `join` at its end put the two in order, events in between do. The host waits for neither inside a call.

mod attention;
mod cublas;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use comm::{Call, Communicator, Progress};
use contract::failure;
use device::cuda::{CudaError, Event, Gpu, Stream};
use device::{Region, Slice};
use engine::cuda::{Algorithm, Arithmetic, Form, Matrix, Operands, ProductError, Products, Rows};
use measure::Failure;
use serde_json::{Map, Value, json};
use terms::Dtype;

pub(super) use self::attention::OnGpu as AttentionOnGpu;
use super::pattern::{Comparison, Picture, Values};
use super::product::BufferBlock;
use super::task::{Scheme, Task};

/// What no buffer holds before a call: no number of a pattern.
const UNTOUCHED: u8 = 0xA5;

/// See the module's documentation.
pub(super) struct OnGpu {
    gpu: Arc<Gpu>,
    products: Products,
    rows: Rows,
    arithmetic: Arithmetic,
    /// Where products run while the device's own stream communicates; absent where nothing overlaps.
    beside: OnceCell<Stream>,
    /// Events that nobody waits for.
    idle: RefCell<Vec<Event>>,
    /// Numbers that pictures repeat, on the device.
    values: RefCell<HashMap<Values, Slice>>,
    /// The first error of filling, until somebody can be told.
    failed: RefCell<Option<Failure>>,
}

/// An error of the driver.
pub(super) fn refused(error: CudaError) -> Failure {
    if error.is_out_of_memory() { Failure::lacking(error.to_string()) } else { Failure::new(error.to_string()) }
}

/// An error of the library.
pub(super) fn unmultiplied(error: ProductError) -> Failure {
    if error.is_lacking() { Failure::lacking(error.to_string()) } else { Failure::new(error.to_string()) }
}

impl OnGpu {
    /// The libraries on the GPU that holds a buffer of this rank.
    ///
    /// # Errors
    /// What is missing: the library, a product of this type, memory.
    pub(super) fn new(task: &Task, of: &Slice) -> Result<Self, Failure> {
        let none = || Failure::new("the backend gave host memory where a GPU's was asked for");
        let gpu = of.gpu().ok_or_else(none)?.clone();
        let unknown = || Failure::new(format!("{} cannot be multiplied on GPUs", task.dtype));
        let arithmetic = Arithmetic::of(task.dtype, task.means.tf32).ok_or_else(unknown)?;
        let library = cublas::open(task.means.library.as_deref(), &gpu)?;
        let products = Products::new(&gpu, &library, task.means.is_tuned).map_err(unmultiplied)?;
        let rows = Rows::load(&gpu).map_err(unmultiplied)?;
        let (beside, idle, values, failed) = Default::default();
        let own = Self { gpu, products, rows, arithmetic, beside, idle, values, failed };
        // What the GPU or the library cannot do is said before anything is measured.
        if task.scheme != Scheme::Attention {
            own.products.algorithm(&own.form(&BufferBlock::from_size(task.product()))).map_err(unmultiplied)?;
        }
        Ok(own)
    }

    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// From now on products run beside the device's own stream.
    pub(super) fn overlap(&self) -> Result<(), Failure> {
        if self.beside.get().is_none() {
            let _ = self.beside.set(Stream::new(&self.gpu).map_err(refused)?);
        }
        Ok(())
    }

    /// The stream that computes.
    pub(super) fn beside(&self) -> Option<&Stream> {
        self.beside.get()
    }

    /// What is computed from now on comes after all that the device was given: what fills buffers, and what times calls, too.
    pub(super) fn fork(&self) -> Result<(), Failure> {
        self.beside().map_or(Ok(()), Stream::follow).map_err(refused)
    }

    /// What the device is given from now on comes after all that was computed.
    pub(super) fn join(&self) -> Result<(), Failure> {
        self.beside().map_or(Ok(()), Stream::lead).map_err(refused)
    }

    /// Waits for the device, where the backend does not.
    pub(super) fn finish(&self, comm: &dyn Communicator) -> Result<(), Failure> {
        match comm.shape().capabilities.progress {
            Progress::Device => Ok(()),
            _ => self.gpu.synchronise().map_err(refused),
        }
    }

    fn event(&self) -> Result<Event, Failure> {
        let idle = self.idle.borrow_mut().pop();
        idle.map_or_else(|| Event::new(&self.gpu).map_err(refused), Ok)
    }

    /// The point behind all that was computed so far.
    pub(super) fn computed(&self) -> Result<Event, Failure> {
        let point = self.event()?;
        match self.beside() {
            Some(stream) => stream.record(&point).map_err(refused)?,
            None => point.record().map_err(refused)?,
        }
        Ok(point)
    }

    /// Gives an operation to the device, behind the point, which is then the one behind the operation.
    pub(super) fn give(&self, comm: &mut dyn Communicator, call: &Call, point: &Event) -> Result<(), Failure> {
        if self.beside().is_some() {
            point.hold_own().map_err(refused)?;
        }
        comm.enqueue(call).map_err(failure)?;
        point.record().map_err(refused)
    }

    /// What is computed from now on comes after a point of the device's own stream.
    pub(super) fn follow(&self, point: Event) -> Result<(), Failure> {
        if let Some(stream) = self.beside() {
            stream.hold(&point).map_err(refused)?;
        }
        self.spare(point);
        Ok(())
    }

    /// A point that nobody waits for any more.
    pub(super) fn spare(&self, point: Event) {
        self.idle.borrow_mut().push(point);
    }

    /// An operation between computations, where nothing overlaps: both are on the device's own stream.
    pub(super) fn run(&self, comm: &mut dyn Communicator, call: &Call) -> Result<(), Failure> {
        debug_assert!(self.beside().is_none(), "what overlaps is started and waited for");
        let is_barrier = call.input.is_empty() && call.output.is_empty();
        if is_barrier && comm.shape().capabilities.progress != Progress::Device {
            // Ranks meet on the host, which knows nothing of what the device still does.
            self.gpu.synchronise().map_err(refused)?;
        }
        comm.enqueue(call).map_err(failure)
    }

    fn form(&self, block: &BufferBlock) -> Form {
        let BufferBlock { size, b_transposed, accumulate, .. } = *block;
        let form = Form::new(self.arithmetic, [size.m, size.n, size.k]);
        Form { b_transposed: b_transposed || form.b_transposed, accumulate, ..form }
    }

    /// Gives a product of parts of these buffers to the stream that computes.
    pub(super) fn multiply(&self, [a, b, c]: [&Slice; 3], block: &BufferBlock) -> Result<(), Failure> {
        let form = self.form(block);
        let [m, n, k] = [block.size.m, block.size.n, block.size.k];
        let part = |of: &Slice, begin: usize, len: usize, dtype: Dtype| {
            let size = dtype.bytes() as usize;
            of.slice(begin * size, len * size).ok_or_else(|| Failure::new("a product lies outside of its buffers"))
        };
        let [of_a, of_b, of_c] = form.dtypes();
        let (a, b) = (part(a, block.a, m * k, of_a)?, part(b, block.b, k * n, of_b)?);
        let c = part(c, block.c, m * n, of_c)?;
        let operands = Operands { a: &a, b: &b, c: &c, bias: None, auxiliary: None };
        self.products.multiply(&form, &operands, self.beside()).map_err(unmultiplied)
    }

    /// A product of any form, on the stream that computes.
    pub(super) fn multiply_form(&self, form: &Form, operands: &Operands<'_>) -> Result<(), Failure> {
        self.products.multiply(form, operands, self.beside()).map_err(unmultiplied)
    }

    pub(super) fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Copies, in the order of the stream that computes.
    pub(super) fn copy(&self, from: &Slice, to: &Slice) -> Result<(), Failure> {
        to.copy_from(from, self.beside()).map_err(refused)
    }

    /// `to += from`, in the same order.
    pub(super) fn add(&self, dtype: Dtype, from: &Slice, to: &Slice) -> Result<(), Failure> {
        self.rows.add(dtype, from, to, self.beside()).map_err(unmultiplied)
    }

    /// Brings places of rows to the device.
    pub(super) fn places(&self, places: &[usize]) -> Result<Slice, Failure> {
        self.rows.places(places.iter().copied()).map_err(unmultiplied)
    }

    /// Brings weights of rows to the device.
    pub(super) fn weights(&self, weights: &[f64]) -> Result<Slice, Failure> {
        self.rows.values(weights).map_err(unmultiplied)
    }

    /// Row i = row `index[i]` of another buffer, of so many bytes each.
    pub(super) fn gather(&self, bytes: usize, places: [&Slice; 3]) -> Result<(), Failure> {
        self.rows.gather(bytes, places, self.beside()).map_err(unmultiplied)
    }

    /// Adds up rows, each times its weight.
    pub(super) fn combine(&self, sizes: (Dtype, usize, usize), places: [&Slice; 5]) -> Result<(), Failure> {
        self.rows.combine(sizes, places, self.beside()).map_err(unmultiplied)
    }

    /// Notes an error until the next check.
    pub(super) fn note(&self, done: Result<(), Failure>) {
        if let Err(why) = done {
            self.failed.borrow_mut().get_or_insert(why);
        }
    }

    /// What went wrong while buffers were filled.
    pub(super) fn checked(&self) -> Result<(), Failure> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Overwrites what a call before has left.
    pub(super) fn forget(&self, buffer: &Slice) -> Result<(), Failure> {
        buffer.set(UNTOUCHED).map_err(refused)
    }

    /// Runs `work` with a picture's matrix on the device.
    fn with<T>(
        &self,
        (at, dtype): (&Slice, Dtype),
        picture: &Picture<'_>,
        work: impl FnOnce(&Matrix<'_>) -> Result<T, ProductError>,
    ) -> Result<T, Failure> {
        let lines = self.rows.lines(picture.lines.iter().copied()).map_err(unmultiplied)?;
        let mut all = self.values.borrow_mut();
        let values = match all.get(&picture.values) {
            Some(values) => values.clone(),
            None => {
                let values = self.rows.values(picture.numbers).map_err(unmultiplied)?;
                all.entry(picture.values).or_insert(values).clone()
            }
        };
        let Picture { columns, step, period, .. } = *picture;
        work(&Matrix { at, dtype, columns, values: &values, lines: &lines, step, period }).map_err(unmultiplied)
    }

    /// Fills a matrix where it lies.
    pub(super) fn fill(&self, to: &Slice, dtype: Dtype, picture: &Picture<'_>) -> Result<(), Failure> {
        if to.is_empty() {
            return Ok(());
        }
        self.with((to, dtype), picture, |matrix| self.rows.fill(matrix))
    }

    /// Compares a matrix where it lies.
    pub(super) fn compare(
        &self,
        (at, dtype): (&Slice, Dtype),
        picture: &Picture<'_>,
        tolerance: f64,
        found: &mut Comparison<'_>,
    ) -> Result<(), Failure> {
        if at.is_empty() {
            return Ok(());
        }
        let wrong = self.with((at, dtype), picture, |matrix| self.rows.compare(matrix, tolerance))?;
        let size = dtype.bytes() as usize;
        found.report.compared += (at.len() / size) as u64;
        for index in &wrong.first {
            let mut bytes = [0; 8];
            let place = at.slice(*index as usize * size, size).ok_or_else(|| Failure::new("an index of no element"))?;
            place.read(&mut bytes[..size]).map_err(refused)?;
            found.name(*index as usize, picture.at(*index as usize), engine::cuda::decode(dtype, &bytes[..size]));
        }
        found.report.count += wrong.wrong;
        Ok(())
    }

    /// Runs `work` on memory of the host that has what a buffer holds, and brings back what it left, where it `writes`.
    pub(super) fn mirrored(&self, buffer: &Slice, writes: bool, work: impl FnOnce(&Slice)) -> Result<(), Failure> {
        let host = Region::host(buffer.len().max(1)).map_err(|error| Failure::lacking(error.to_string()))?;
        let host = host.slice(0, buffer.len()).ok_or_else(|| Failure::new("a buffer is smaller than its layout"))?;
        // SAFETY: memory of this function alone, of that length.
        let bytes = unsafe { std::slice::from_raw_parts_mut(host.ptr(), host.len()) };
        buffer.read(bytes).map_err(refused)?;
        work(&host);
        if writes { buffer.write(bytes).map_err(refused) } else { Ok(()) }
    }

    /// How it multiplies, for the record.
    pub(super) fn details(&self) -> Map<String, Value> {
        let multiplied = format!("cuBLASLt {}", self.products.library().version());
        // One thread of the host gives work to the device.
        let mut details =
            Map::from_iter([("multiplied".to_owned(), json!(multiplied)), ("threads".to_owned(), json!(1))]);
        if let Some((_, algorithm)) = self.products.taken().into_iter().next() {
            let Algorithm { id, tile, splits, stages, workspace, tried } = algorithm;
            details
                .insert("algorithm".to_owned(), json!(format!("{id}, tile {tile}, stages {stages}, splits {splits}")));
            details.insert("workspace_bytes".to_owned(), json!(workspace));
            details.insert("algorithms_tried".to_owned(), json!(tried));
        }
        details
    }
}
