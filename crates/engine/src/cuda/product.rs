//! Products on a stream: the library's handle, its workspace, and a plan for each form that was asked for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use device::cuda::{CudaError, Event, Gpu, Stream};
use device::{Region, Slice};

use super::ProductError;
use super::descriptors::{self, Descriptor};
use super::form::{Form, Operands};
use super::library::{Candidate, Cublas, Handle};

/// Bytes of device memory that the library may use during a product: what PyTorch gives it on Hopper.
pub const WORKSPACE: usize = 32 << 20;
/// Algorithms that are tried for the fastest, at most.
const TRIED: usize = 16;
/// Products that an algorithm is timed by, after one that warms it up.
const TIMED: usize = 3;
/// What the library may assume of addresses, at most.
const ALIGNED: usize = 256;

/// cublasLtMatmulAlgoConfigAttributes_t.
const ALGORITHM_ID: c_int = 0;
const ALGORITHM_TILE: c_int = 1;
const ALGORITHM_SPLITS: c_int = 2;
const ALGORITHM_STAGES: c_int = 6;

/// An algorithm of the library, as the record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// Number of the algorithm.
    pub id: u32,
    /// The number of its tile in cublasLtMatmulTile_t.
    pub tile: u32,
    /// Parts of the depth that are added up afterwards.
    pub splits: u32,
    /// The number of its pipeline in cublasLtMatmulStages_t.
    pub stages: u32,
    /// Bytes of the workspace that it takes.
    pub workspace: u64,
    /// How many were tried: 1 is the library's first choice.
    pub tried: u32,
}

/// Everything that is known of a form before it is multiplied.
struct Plan {
    form: Descriptor,
    layouts: [Descriptor; 3],
    chosen: Candidate,
    algorithm: Algorithm,
    /// Factors of the product and of what C holds, in the scale type's bytes.
    factors: [[u8; 8]; 2],
}

/// What a plan is made for: a form, and how far addresses of A, B and C are aligned.
type ProductKey = (Form, [u32; 5]);

/// Products of one device, on one stream at a time: they share a workspace.
pub struct Products {
    gpu: Arc<Gpu>,
    library: Arc<Cublas>,
    handle: Handle,
    workspace: Arc<Region>,
    /// Tries several algorithms for each new form.
    is_tuned: bool,
    plans: Mutex<HashMap<ProductKey, Plan>>,
}

// SAFETY: the library's handle may be used from any thread; plans are behind a lock.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    /// The library on a device, with its workspace. `is_tuned`: each new form takes the fastest of several algorithms, instead of the
    /// library's first.
    ///
    /// # Errors
    /// What the library or the driver says: too little memory among it.
    pub fn new(gpu: &Arc<Gpu>, library: &Arc<Cublas>, is_tuned: bool) -> Result<Self, ProductError> {
        gpu.enter()?;
        let too_large = |error: CudaError| match error.is_out_of_memory() {
            true => ProductError::Unsupported(format!(
                "no memory for cuBLAS's workspace of {} MiB: {error}",
                WORKSPACE >> 20
            )),
            false => error.into(),
        };
        let workspace = Region::cuda(gpu, WORKSPACE).map_err(too_large)?;
        let (gpu, library) = (gpu.clone(), library.clone());
        let mut handle = ptr::null_mut();
        // SAFETY: as cublasLt.h declares it; the out-pointer is valid, and a context is current.
        let status = unsafe { (library.functions.create)(&mut handle) };
        library.succeeded("cublasLtCreate", status)?;
        Ok(Self { gpu, library, handle, workspace, is_tuned, plans: Mutex::default() })
    }

    /// The library.
    pub fn library(&self) -> &Arc<Cublas> {
        &self.library
    }

    /// The algorithm for a form whose matrices lie as aligned as allocations are.
    ///
    /// # Errors
    /// [`ProductError::Unsupported`] where this GPU or this library has none.
    pub fn algorithm(&self, form: &Form) -> Result<Algorithm, ProductError> {
        self.algorithm_of((*form, [ALIGNED as u32; 5]))
    }

    /// The algorithm for a product whose matrices lie there, as aligned as they are. The product takes it.
    ///
    /// # Errors
    /// [`ProductError::Unsupported`] where this GPU or this library has none for such places; operands that do not fit the form.
    pub fn algorithm_for(&self, form: &Form, operands: &Operands<'_>) -> Result<Algorithm, ProductError> {
        self.check(form, operands)?;
        self.algorithm_of((*form, alignments(operands)))
    }

    /// The algorithm of a plan, which is kept.
    fn algorithm_of(&self, key: ProductKey) -> Result<Algorithm, ProductError> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(&key) {
            return Ok(plan.algorithm);
        }
        let (plan, _) = self.plan(&key)?;
        let algorithm = plan.algorithm;
        // Which is the fastest is only known once it has run.
        if !self.is_tuned {
            plans.insert(key, plan);
        }
        Ok(algorithm)
    }

    /// Gives a product to a stream: the device's own, or another one of it. The first of a form is planned, which takes time.
    ///
    /// # Errors
    /// What the library says; buffers that are too short, or that the device does not reach.
    pub fn multiply(&self, form: &Form, operands: &Operands<'_>, beside: Option<&Stream>) -> Result<(), ProductError> {
        self.check(form, operands)?;
        let key = (*form, alignments(operands));
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = match plans.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let (mut plan, candidates) = self.plan(place.key())?;
                if self.is_tuned && !form.accumulate {
                    self.tune(&mut plan, candidates, operands, beside)?;
                }
                place.insert(plan)
            }
        };
        self.run(plan, operands, beside)
    }

    /// The algorithms that products of these sizes have taken so far, the largest product's first.
    pub fn taken(&self) -> Vec<(Form, Algorithm)> {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(Form, Algorithm)> = plans.iter().map(|((form, _), plan)| (*form, plan.algorithm)).collect();
        let size = |form: &Form| (form.m * form.n * form.k, form.m, form.n, form.accumulate);
        all.sort_by_key(|(form, algorithm)| (std::cmp::Reverse(size(form)), algorithm.id, algorithm.tile));
        all
    }

    fn check(&self, form: &Form, operands: &Operands<'_>) -> Result<(), ProductError> {
        let refused = |why: String| Err(ProductError::Refused(why));
        let result = form.result().bytes() as usize;
        let sizes = form.elements().into_iter().zip(form.dtypes()).map(|(len, dtype)| len * dtype.bytes() as usize);
        let bias = operands.bias.map(|slice| ("bias", slice, form.vector() * result));
        let auxiliary = operands.auxiliary.map(|slice| ("auxiliary", slice, form.m * form.n * result));
        let matrices = ["A", "B", "C"].into_iter().zip([operands.a, operands.b, operands.c]).zip(sizes);
        let matrices = matrices.map(|((name, slice), bytes)| (name, slice, bytes));
        if (bias.is_some(), auxiliary.is_some()) != (form.epilogue.has_bias(), form.epilogue.has_auxiliary()) {
            return refused(format!("{:?} has another vector or matrix than was given", form.epilogue));
        }
        for (name, slice, bytes) in matrices.chain(bias).chain(auxiliary) {
            if slice.len() < bytes {
                return refused(format!("{name} has {} bytes, and needs {bytes}", slice.len()));
            }
            let gpu = slice.gpu().or(slice.region().reaching());
            if !gpu.is_some_and(|gpu| Arc::ptr_eq(gpu, &self.gpu)) {
                return refused(format!("{name} is not in reach of this GPU"));
            }
        }
        Ok(())
    }

    /// Describes a form to the library, which says what it would take.
    fn plan(&self, (form, alignments): &ProductKey) -> Result<(Plan, Vec<Candidate>), ProductError> {
        form.check()?;
        let (own, since) = (self.gpu.capability()?, form.arithmetic.since());
        let number = |[major, minor]: [u32; 2]| format!("sm_{major}{minor}");
        if own < since {
            let (what, own, since) = (form.arithmetic.operand(), number(own), number(since));
            let why = format!("products of {what} need a GPU of {since} or later, but {} is {own}", self.gpu.name());
            return Err(ProductError::Unsupported(why));
        }
        let layouts = descriptors::layouts(&self.library, form)?;
        let described = descriptors::form(&self.library, form)?;
        let [a, b, c, bias, auxiliary] = *alignments;
        // Places for the library to look at, which sees how they are aligned: real ones come with each product.
        let place = self.workspace.address() as u64;
        let of = |has: bool, aligned: u32| has.then_some(place + u64::from(aligned % ALIGNED as u32));
        described.places(of(form.epilogue.has_bias(), bias), of(form.epilogue.has_auxiliary(), auxiliary))?;
        let is_narrow = form.dtypes()[2].bytes() < 4;
        let wish = descriptors::wish(&self.library, WORKSPACE as u64, [b, a, c, c], is_narrow)?;
        let asked = if self.is_tuned { TRIED } else { 1 };
        let (mut candidates, mut found) = (vec![Candidate::default(); asked], 0);
        let [x, y, d] = [&layouts[0], &layouts[1], &layouts[2]].map(Descriptor::handle);
        let (handle, form_of, wish_of) = (self.handle, described.handle(), wish.handle());
        let (first, count) = (candidates.as_mut_ptr(), asked as c_int);
        // SAFETY: as cublasLt.h declares it: all descriptions live, and there is room for so many candidates.
        let status = unsafe {
            (self.library.functions.heuristic)(handle, form_of, x, y, d, d, wish_of, count, first, &mut found)
        };
        // The library says "not supported" where it has nothing at all.
        const NOT_SUPPORTED: c_int = 15;
        if status != NOT_SUPPORTED {
            self.library.succeeded("cublasLtMatmulAlgoGetHeuristic", status)?;
        }
        candidates.truncate(usize::try_from(found).unwrap_or(0));
        candidates.retain(|candidate| candidate.state == 0 && candidate.workspace <= WORKSPACE);
        let Some(chosen) = candidates.first().copied() else {
            return Err(ProductError::Unsupported(format!(
                "cuBLAS {} has no product of {} for {} x {} x {} on {}",
                self.library.version(),
                form.arithmetic.operand(),
                form.m,
                form.n,
                form.k,
                self.gpu.name()
            )));
        };
        let factors = [form.arithmetic.factor(1), form.arithmetic.factor(u8::from(form.accumulate))];
        let algorithm = self.named(&chosen, 1);
        Ok((Plan { form: described, layouts, chosen, algorithm, factors }, candidates))
    }

    /// What the record has of an algorithm.
    fn named(&self, candidate: &Candidate, tried: usize) -> Algorithm {
        let of = |attribute: c_int| {
            let (mut value, mut written) = (0_u32, 0_usize);
            let get = self.library.functions.algorithm_get;
            // SAFETY: as cublasLt.h declares it: the value has four bytes.
            let status = unsafe { get(&candidate.algo, attribute, (&raw mut value).cast(), 4, &mut written) };
            if status == 0 { value } else { 0 }
        };
        Algorithm {
            id: of(ALGORITHM_ID),
            tile: of(ALGORITHM_TILE),
            splits: of(ALGORITHM_SPLITS).max(1),
            stages: of(ALGORITHM_STAGES),
            workspace: candidate.workspace as u64,
            tried: tried as u32,
        }
    }

    /// Takes the fastest of these, by the device's own clock. One that fails is passed over.
    fn tune(
        &self,
        plan: &mut Plan,
        candidates: Vec<Candidate>,
        operands: &Operands<'_>,
        beside: Option<&Stream>,
    ) -> Result<(), ProductError> {
        let (begin, end) = (Event::timed(&self.gpu)?, Event::timed(&self.gpu)?);
        let mut best: Option<(f64, Candidate)> = None;
        let tried = candidates.len();
        let mut refused = None;
        for candidate in candidates {
            plan.chosen = candidate;
            let timed = (|| -> Result<f64, ProductError> {
                self.run(plan, operands, beside)?;
                record(&begin, beside)?;
                (0..TIMED).try_for_each(|_| self.run(plan, operands, beside))?;
                record(&end, beside)?;
                while !end.is_done()? {}
                Ok(end.since(&begin)?)
            })();
            match timed {
                Ok(ns) if best.is_none_or(|(least, _)| ns < least) => best = Some((ns, candidate)),
                Ok(_) => {}
                // What the driver says is of the device, and of every later product.
                Err(error @ ProductError::Driver(_)) => return Err(error),
                Err(error) => refused = Some(error),
            }
        }
        let (_, chosen) = match (best, refused) {
            (Some(best), _) => best,
            (None, Some(error)) => return Err(error),
            (None, None) => return Ok(()),
        };
        plan.chosen = chosen;
        plan.algorithm = self.named(&chosen, tried);
        Ok(())
    }

    fn run(&self, plan: &Plan, operands: &Operands<'_>, beside: Option<&Stream>) -> Result<(), ProductError> {
        let address = |slice: &Slice| slice.address() as u64;
        plan.form.places(operands.bias.map(address), operands.auxiliary.map(address))?;
        let [x, y, d] = [&plan.layouts[0], &plan.layouts[1], &plan.layouts[2]].map(Descriptor::handle);
        let [a, b, c] = [operands.a, operands.b, operands.c].map(address);
        let [alpha, beta] = [&plan.factors[0], &plan.factors[1]].map(|factor| factor.as_ptr().cast());
        let (handle, form, algo) = (self.handle, plan.form.handle(), &raw const plan.chosen.algo);
        let (workspace, bytes) = (self.workspace.address() as u64, plan.chosen.workspace);
        let stream = self.gpu.stream_of(beside);
        // SAFETY: as cublasLt.h declares it: matrices hold what their layouts say (`check`), factors are of the scale type, the
        // algorithm is one that the library gave for these descriptions, and the workspace has what it asked for.
        let status = unsafe {
            (self.library.functions.multiply)(
                handle, form, alpha, b, x, a, y, beta, c, d, c, d, algo, workspace, bytes, stream,
            )
        };
        self.library.succeeded("cublasLtMatmul", status)
    }
}

/// How far the places of A, B, C, the vector and the second matrix are aligned.
fn alignments(operands: &Operands<'_>) -> [u32; 5] {
    let alignment = |slice: &Slice| 1 << slice.address().trailing_zeros().min(ALIGNED.trailing_zeros());
    let [bias, auxiliary] = [operands.bias, operands.auxiliary].map(|slice| slice.map_or(ALIGNED as u32, alignment));
    let [a, b, c] = [operands.a, operands.b, operands.c].map(alignment);
    [a, b, c, bias, auxiliary]
}

fn record(event: &Event, beside: Option<&Stream>) -> Result<(), ProductError> {
    match beside {
        Some(stream) => stream.record(event)?,
        None => event.record()?,
    }
    Ok(())
}

impl Drop for Products {
    fn drop(&mut self) {
        // What the device or the library says when things end, nobody can act on.
        let _ = self.gpu.enter();
        let _ = self.gpu.synchronise();
        // SAFETY: as cublasLt.h declares it; what it was given has run.
        unsafe { (self.library.functions.destroy)(self.handle) };
    }
}

impl std::fmt::Debug for Products {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Products").field("library", &self.library).finish_non_exhaustive()
    }
}
