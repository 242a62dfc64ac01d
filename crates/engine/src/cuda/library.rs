//! cuBLASLt's functions, resolved whole or not at all; their forms are those of cublasLt.h, the same in CUDA 11.8, 12 and 13.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use device::cuda::Gpu;

use super::form::Form;
use super::{ProductError, descriptors};

/// Names of the library's files, without `.so` and version.
pub static STEMS: &[&str] = &["libcublasLt"];

/// cublasStatus_t; 0 is success.
pub(super) type Status = c_int;
/// cublasLtHandle_t and descriptors.
pub(super) type Handle = *mut c_void;

/// cublasLtMatmulAlgo_t.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Algo(pub(super) [u64; 8]);

/// cublasLtMatmulHeuristicResult_t.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Candidate {
    pub(super) algo: Algo,
    pub(super) workspace: usize,
    pub(super) state: Status,
    pub(super) waves: f32,
    reserved: [c_int; 4],
}

device::functions! {
    /// The table.
    pub(super) struct Functions;
    create = c"cublasLtCreate": fn(*mut Handle) -> Status;
    destroy = c"cublasLtDestroy": fn(Handle) -> Status;
    version = c"cublasLtGetVersion": fn() -> usize;
    runtime = c"cublasLtGetCudartVersion": fn() -> usize;
    status_name = c"cublasLtGetStatusName": fn(Status) -> *const c_char;
    status_string = c"cublasLtGetStatusString": fn(Status) -> *const c_char;
    layout_create = c"cublasLtMatrixLayoutCreate": fn(*mut Handle, c_int, u64, u64, i64) -> Status;
    layout_destroy = c"cublasLtMatrixLayoutDestroy": fn(Handle) -> Status;
    layout_set = c"cublasLtMatrixLayoutSetAttribute": fn(Handle, c_int, *const c_void, usize) -> Status;
    form_create = c"cublasLtMatmulDescCreate": fn(*mut Handle, c_int, c_int) -> Status;
    form_destroy = c"cublasLtMatmulDescDestroy": fn(Handle) -> Status;
    form_set = c"cublasLtMatmulDescSetAttribute": fn(Handle, c_int, *const c_void, usize) -> Status;
    wish_create = c"cublasLtMatmulPreferenceCreate": fn(*mut Handle) -> Status;
    wish_destroy = c"cublasLtMatmulPreferenceDestroy": fn(Handle) -> Status;
    wish_set = c"cublasLtMatmulPreferenceSetAttribute": fn(Handle, c_int, *const c_void, usize) -> Status;
    heuristic = c"cublasLtMatmulAlgoGetHeuristic": fn(
        Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Candidate, *mut c_int
    ) -> Status;
    algorithm_get = c"cublasLtMatmulAlgoConfigGetAttribute": fn(*const Algo, c_int, *mut c_void, usize, *mut usize) -> Status;
    multiply = c"cublasLtMatmul": fn(
        Handle, Handle, *const c_void, u64, Handle, u64, Handle, *const c_void, u64, Handle, u64, Handle,
        *const Algo, u64, usize, *mut c_void
    ) -> Status;
}

/// The library, opened for a device.
#[derive(Debug)]
pub struct Cublas {
    pub(super) functions: Functions,
}

/// `13.0` of 130000 (13 from CUDA 13 on: major x 10,000) and of 120900 (12.9.0).
fn version(number: usize) -> String {
    let (major, rest) = (number / 10_000, number % 10_000);
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

impl Cublas {
    /// Opens the library. Runs its code.
    ///
    /// # Errors
    /// What the loader says, the symbols that lack, or that it is of a newer major version of CUDA than the driver runs.
    pub fn open(path: &Path, gpu: &Gpu) -> Result<Arc<Self>, String> {
        let library = Self { functions: Functions::open(path)? };
        // SAFETY: as cublasLt.h declares it: takes nothing.
        let built_for = unsafe { (library.functions.runtime)() } / 1000;
        let runs = gpu.driver().version().map_err(|error| error.to_string())?;
        let newest: usize = runs.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if built_for > newest {
            let message =
                format!("cuBLAS {} is built for CUDA {built_for}, but the driver runs CUDA {runs}", library.version());
            return Err(format!("{message}: a library of CUDA {newest}, or a newer driver"));
        }
        Ok(Arc::new(library))
    }

    /// Opens the library that was found for the name that was given, or for none.
    ///
    /// # Errors
    /// [`ProductError::Unsupported`]: which is missing, or what it lacks.
    pub fn found(found: Option<PathBuf>, given: Option<&str>, gpu: &Gpu) -> Result<Arc<Self>, ProductError> {
        let lacks = || {
            match given {
            Some(name) => format!("{name} has no cuBLAS (a wheel of nvidia-cublas has)"),
            None => "no libcublasLt.so where the loader looks, in CUDA_HOME, or in the wheels of python3: products on GPUs need cuBLAS"
                .to_owned(),
        }
        };
        let path = found.ok_or_else(|| ProductError::Unsupported(lacks()))?;
        Self::open(&path, gpu).map_err(|why| ProductError::Unsupported(format!("{}: {why}", path.display())))
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        self.functions.path()
    }

    /// Version of the library, as `12.9.1`.
    pub fn version(&self) -> String {
        // SAFETY: as cublasLt.h declares it: takes nothing.
        version(unsafe { (self.functions.version)() })
    }

    /// Describes a product as it would be before it is multiplied: all attributes that are used, and no device.
    ///
    /// # Errors
    /// What the library says: which attribute it does not have.
    pub fn describe(self: &Arc<Self>, form: &Form) -> Result<(), ProductError> {
        descriptors::layouts(self, form)?;
        let described = descriptors::form(self, form)?;
        let place = |has: bool| has.then_some(256);
        described.places(place(form.epilogue.has_bias()), place(form.epilogue.has_auxiliary()))?;
        descriptors::wish(self, 1, [16; 4], form.dtypes()[2].bytes() < 4).map(drop)
    }

    /// An error for a status other than success, with the library's words.
    #[inline]
    pub(super) fn succeeded(&self, what: &'static str, status: Status) -> Result<(), ProductError> {
        if status == 0 { Ok(()) } else { Err(self.error(what, status)) }
    }

    #[cold]
    fn error(&self, what: &'static str, status: Status) -> ProductError {
        let text = |function: unsafe extern "C" fn(Status) -> *const c_char| {
            // SAFETY: as cublasLt.h declares it; the text is the library's own and lives as long as it.
            let text = unsafe { function(status) };
            // SAFETY: a terminated text, as just said.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        ProductError::Library {
            what,
            name: text(self.functions.status_name).unwrap_or_else(|| format!("status {status}")),
            said: text(self.functions.status_string).unwrap_or_else(|| "the library has no words for it".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_library_s_file() {
        assert_eq!([120_901, 130_002, 110_800].map(version), ["12.9.1", "13.0.2", "11.8.0"]);
    }
}
