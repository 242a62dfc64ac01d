//! The library's own descriptions of a product, each destroyed once.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use super::ProductError;
use super::form::Form;
use super::library::{Cublas, Functions, Handle, Status};

type Destroy = unsafe extern "C" fn(Handle) -> Status;
type Set = unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status;

/// One description, and how it is changed and destroyed.
pub(super) struct Descriptor {
    library: Arc<Cublas>,
    handle: Handle,
    set: (&'static str, Set),
    destroy: Destroy,
}

// SAFETY: plain memory of the library, which any one thread at a time may use.
unsafe impl Send for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: as cublasLt.h declares it: what its function created, destroyed once.
        unsafe { (self.destroy)(self.handle) };
    }
}

/// cublasLtMatrixLayoutAttribute_t.
const LAYOUT_BATCH_COUNT: c_int = 5;
const LAYOUT_BATCH_STRIDE: c_int = 6;
/// cublasLtMatmulDescAttributes_t.
const FORM_TRANSPOSES_A: c_int = 3;
const FORM_TRANSPOSES_B: c_int = 4;
const FORM_EPILOGUE: c_int = 7;
const FORM_BIAS: c_int = 8;
const FORM_AUXILIARY: c_int = 11;
const FORM_AUXILIARY_LD: c_int = 12;
/// cublasLtMatmulPreferenceAttributes_t: the workspace, and the alignments of A, B, C and D.
const WISH_WORKSPACE: c_int = 1;
const WISH_ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];
/// How parts of a depth that were added up apart may become one sum: CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, in the type of sums.
const WISH_REDUCTION: c_int = 3;
const IN_TYPE_OF_SUMS: u32 = 2;
/// cublasOperation_t.
const TRANSPOSED: i32 = 1;

impl Descriptor {
    fn new(
        library: &Arc<Cublas>,
        what: &'static str,
        (set, destroy): ((&'static str, Set), Destroy),
        create: impl FnOnce(&Functions, *mut Handle) -> Status,
    ) -> Result<Self, ProductError> {
        let mut handle = ptr::null_mut();
        let status = create(&library.functions, &mut handle);
        library.succeeded(what, status)?;
        Ok(Self { library: library.clone(), handle, set, destroy })
    }

    /// The library's handle.
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// Sets an attribute to a value of the size that the library's header gives it.
    fn set<T: Copy>(&self, attribute: c_int, value: T) -> Result<(), ProductError> {
        let (what, set) = self.set;
        // SAFETY: as cublasLt.h declares it: the value is copied.
        let status = unsafe { set(self.handle, attribute, (&raw const value).cast(), size_of::<T>()) };
        self.library.succeeded(what, status)
    }
}

/// A matrix as the library sees it, by columns: a row-major one is its transpose.
fn layout(
    library: &Arc<Cublas>,
    dtype: c_int,
    [rows, columns]: [usize; 2],
    batch: Option<(usize, usize)>,
) -> Result<Descriptor, ProductError> {
    let functions = &library.functions;
    let ends = (("cublasLtMatrixLayoutSetAttribute", functions.layout_set as Set), functions.layout_destroy);
    let layout = Descriptor::new(library, "cublasLtMatrixLayoutCreate", ends, |functions, to| {
        // SAFETY: as cublasLt.h declares it; the out-pointer is valid.
        unsafe { (functions.layout_create)(to, dtype, rows as u64, columns as u64, rows as i64) }
    })?;
    if let Some((count, stride)) = batch {
        layout.set(LAYOUT_BATCH_COUNT, count as i32)?;
        layout.set(LAYOUT_BATCH_STRIDE, stride as i64)?;
    }
    Ok(layout)
}

/// Layouts of the library's A, B and D: our B, A and C.
pub(super) fn layouts(library: &Arc<Cublas>, form: &Form) -> Result<[Descriptor; 3], ProductError> {
    let Form { m, n, k, .. } = *form;
    let codes = form.arithmetic.codes();
    let batch = |place: usize| form.batch.map(|batch| (batch.count, batch.strides[place]));
    let b = if form.b_transposed { [k, n] } else { [n, k] };
    let a = if form.a_transposed { [m, k] } else { [k, m] };
    Ok([
        layout(library, codes.operand, b, batch(1))?,
        layout(library, codes.operand, a, batch(0))?,
        layout(library, form.result_code(), [n, m], batch(2))?,
    ])
}

/// What is done with the matrices.
pub(super) fn form(library: &Arc<Cublas>, form: &Form) -> Result<Descriptor, ProductError> {
    let (functions, codes) = (&library.functions, form.arithmetic.codes());
    let ends = (("cublasLtMatmulDescSetAttribute", functions.form_set as Set), functions.form_destroy);
    let made = Descriptor::new(library, "cublasLtMatmulDescCreate", ends, |functions, to| {
        // SAFETY: as cublasLt.h declares it; the out-pointer is valid.
        unsafe { (functions.form_create)(to, codes.compute, codes.scale) }
    })?;
    // The library's first operand is our B. Row-major [k, n] is [n, k] by columns, which is what it multiplies from the left.
    if form.b_transposed {
        made.set(FORM_TRANSPOSES_A, TRANSPOSED)?;
    }
    if form.a_transposed {
        made.set(FORM_TRANSPOSES_B, TRANSPOSED)?;
    }
    made.set(FORM_EPILOGUE, form.epilogue.code())?;
    if form.epilogue.has_auxiliary() {
        made.set(FORM_AUXILIARY_LD, form.n as i64)?;
    }
    Ok(made)
}

impl Descriptor {
    /// Tells a form where the epilogue's vector and matrix lie. Null where it has none.
    pub(super) fn places(&self, bias: Option<u64>, auxiliary: Option<u64>) -> Result<(), ProductError> {
        bias.map_or(Ok(()), |at| self.set(FORM_BIAS, at))?;
        auxiliary.map_or(Ok(()), |at| self.set(FORM_AUXILIARY, at))
    }
}

/// What an algorithm may use: bytes of the workspace, and the alignments of the library's A, B, C and D. Where results are `narrow`,
/// narrower than sums, each is rounded once: no parts of a sum are kept as results are, as the library would by itself.
pub(super) fn wish(
    library: &Arc<Cublas>,
    workspace: u64,
    alignments: [u32; 4],
    narrow: bool,
) -> Result<Descriptor, ProductError> {
    let functions = &library.functions;
    let ends = (("cublasLtMatmulPreferenceSetAttribute", functions.wish_set as Set), functions.wish_destroy);
    let made = Descriptor::new(library, "cublasLtMatmulPreferenceCreate", ends, |functions, to| {
        // SAFETY: as cublasLt.h declares it; the out-pointer is valid.
        unsafe { (functions.wish_create)(to) }
    })?;
    made.set(WISH_WORKSPACE, workspace)?;
    if narrow {
        made.set(WISH_REDUCTION, IN_TYPE_OF_SUMS)?;
    }
    for (attribute, alignment) in WISH_ALIGNMENTS.into_iter().zip(alignments) {
        made.set(attribute, alignment)?;
    }
    Ok(made)
}
