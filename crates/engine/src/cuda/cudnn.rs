//! cuDNN's graphs, as far as attention and convolutions need them: its functions, resolved whole or not at all; their forms are those of
//! cudnn_graph.h, the same in all of cuDNN 9.

mod attention;
mod convolution;
mod graph;
mod places;
mod plan;
mod since;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use device::cuda::{Gpu, Stream};

use super::ProductError;
pub use attention::{CudnnAttention, CudnnPass};
pub use convolution::{CudnnConvolutions, Narrow};
use device::since::{Since, Version};
use graph::Descriptor;
pub use since::{CUDNN_KINDS, CUDNN_SINCE};

/// Names of the library's files, without `.so` and version.
pub static CUDNN_STEMS: &[&str] = &["libcudnn"];

/// cudnnStatus_t; 0 is success.
type Status = c_int;
type CudnnHandle = *mut c_void;

device::functions! {
    /// The table.
    struct CudnnFunctions;
    version = c"cudnnGetVersion": fn() -> usize;
    create = c"cudnnCreate": fn(*mut CudnnHandle) -> Status;
    destroy = c"cudnnDestroy": fn(CudnnHandle) -> Status;
    stream = c"cudnnSetStream": fn(CudnnHandle, *mut c_void) -> Status;
    status_name = c"cudnnGetErrorString": fn(Status) -> *const c_char;
    last_error = c"cudnnGetLastErrorString": fn(*mut c_char, usize) -> ();
    describe = c"cudnnBackendCreateDescriptor": fn(c_int, *mut CudnnHandle) -> Status;
    forget = c"cudnnBackendDestroyDescriptor": fn(CudnnHandle) -> Status;
    set = c"cudnnBackendSetAttribute": fn(CudnnHandle, c_int, c_int, i64, *const c_void) -> Status;
    get = c"cudnnBackendGetAttribute": fn(CudnnHandle, c_int, c_int, i64, *mut i64, *mut c_void) -> Status;
    finish = c"cudnnBackendFinalize": fn(CudnnHandle) -> Status;
    execute = c"cudnnBackendExecute": fn(CudnnHandle, CudnnHandle, CudnnHandle) -> Status;
}

/// The library. Opening it needs no device, and neither does a plan for a device that is described.
#[derive(Debug)]
pub struct Cudnn {
    functions: CudnnFunctions,
}

impl Cudnn {
    /// Opens the library. Runs its code.
    ///
    /// # Errors
    /// What the loader says, the symbols that are missing, or that it is not cuDNN 9.
    pub fn open(path: &Path) -> Result<Arc<Self>, String> {
        let library = Self { functions: CudnnFunctions::open(path)? };
        match library.version_number() / 10_000 {
            9 => Ok(Arc::new(library)),
            _ => Err(format!("it is cuDNN {}, and graphs are built for cuDNN 9", library.version())),
        }
    }

    /// Opens the library that was found for the name that was given, or for none; `what` needs it.
    ///
    /// # Errors
    /// [`ProductError::Unsupported`]: which is missing, or what it lacks.
    pub fn found(found: Option<PathBuf>, given: Option<&str>, what: &str) -> Result<Arc<Self>, ProductError> {
        let lacks = || match given {
            Some(name) => format!("{name} has no cuDNN (a wheel of nvidia-cudnn has)"),
            None => format!(
                "no libcudnn.so where the loader looks, in CUDA_HOME, or in the wheels of python3: {what} need cuDNN 9 (hint: pip install nvidia-cudnn-cu12 or nvidia-cudnn-cu13, or `--runtime pytorch`)"
            ),
        };
        let path = found.ok_or_else(|| ProductError::Unsupported(lacks()))?;
        // The loader names the file itself.
        let file = path.display().to_string();
        let said = |why: String| if why.starts_with(&file) { why } else { format!("{file}: {why}") };
        Self::open(&path).map_err(|why| ProductError::Unsupported(said(why)))
    }

    fn version_number(&self) -> usize {
        // SAFETY: as cudnn_graph.h declares it: takes nothing.
        unsafe { (self.functions.version)() }
    }

    /// Major and minor number of the library.
    pub fn release(&self) -> Version {
        let number = self.version_number();
        [number / 10_000, number / 100 % 100].map(|part| u32::try_from(part).unwrap_or(u32::MAX))
    }

    /// Whether the library has what came with a later version than 9.0.
    fn has(&self, what: &Since) -> bool {
        what.is_in(self.release())
    }

    /// Whether the library makes a descriptor of this kind. No device is needed.
    pub fn describes(self: &Arc<Self>, kind: c_int) -> bool {
        Descriptor::new(self, kind).is_ok()
    }

    /// Version of the library, as `9.19.0`.
    pub fn version(&self) -> String {
        let number = self.version_number();
        format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
    }

    /// An error for a status other than success, with the library's words.
    fn succeeded(&self, what: &'static str, status: Status) -> Result<(), ProductError> {
        if status == 0 { Ok(()) } else { Err(self.error(what, status)) }
    }

    #[cold]
    fn error(&self, what: &'static str, status: Status) -> ProductError {
        let mut said: [c_char; 1024] = [0; 1024];
        // SAFETY: as cudnn_graph.h declares them: the name is the library's own, and the text has the room that it is said to have.
        let name = unsafe {
            (self.functions.last_error)(said.as_mut_ptr(), said.len() - 1);
            (self.functions.status_name)(status)
        };
        // SAFETY: terminated texts, as just said; the last byte was zero.
        let text = |at: *const c_char| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
        let name = if name.is_null() { format!("status {status}") } else { text(name) };
        let error = ProductError::Library { what, name, said: text(said.as_ptr()) };
        match NOT_SUPPORTED.contains(&status) {
            true => ProductError::Unsupported(format!("cuDNN {}: {error}", self.version())),
            false => error,
        }
    }

    /// What a graph that the library did not even take down is reported as. It is strict in what it takes, and each version takes other
    /// shapes: a graph that it refuses is something that it lacks.
    fn untaken(&self, error: ProductError) -> ProductError {
        match error {
            ProductError::Library { .. } => {
                ProductError::Unsupported(format!("cuDNN {} does not take it ({error})", self.version()))
            }
            other => other,
        }
    }
}

/// Statuses that say that this version does not support what was asked, or not on this GPU (CUDNN_STATUS_NOT_SUPPORTED and its kinds).
const NOT_SUPPORTED: std::ops::Range<Status> = 3000..4000;

/// A device that plans are made for.
#[derive(Debug)]
pub struct CudnnDevice {
    library: Arc<Cudnn>,
    /// One thread at a time uses the library's descriptions and its handle.
    aim: Mutex<Aim>,
}

/// What plans are made for. The properties of an opened device would do for planning, too, but other programs run no such plan
/// before it was written out and read again for a handle.
#[derive(Debug)]
enum Aim {
    Opened(CudnnSession),
    Described(Descriptor),
}

/// Attribute of CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR.
const DEVICE_AS_JSON: c_int = 2702;

/// What is made for a device, and the attributes that say so: of a device's properties, and of a handle.
#[derive(Clone, Copy, Debug)]
enum For {
    /// CUDNN_ATTR_OPERATIONGRAPH_HANDLE. With properties, a graph is of no device.
    Graph,
    /// CUDNN_ATTR_ENGINEHEUR_DEVICEPROP. With a handle, its graph says which.
    Wish,
    /// CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_ATTR_EXECUTION_PLAN_HANDLE.
    Plan,
}

impl For {
    fn properties(self) -> Option<c_int> {
        match self {
            Self::Graph => None,
            Self::Wish => Some(204),
            Self::Plan => Some(407),
        }
    }

    fn handle(self) -> Option<c_int> {
        match self {
            Self::Graph => Some(800),
            Self::Wish => None,
            Self::Plan => Some(400),
        }
    }
}

impl CudnnDevice {
    /// A device that this process has opened.
    ///
    /// # Errors
    /// What the library says.
    pub fn of(library: &Arc<Cudnn>, gpu: &Arc<Gpu>) -> Result<Self, ProductError> {
        gpu.enter()?;
        Ok(Self::new(library, Aim::Opened(CudnnSession::new(library, gpu)?)))
    }

    /// A device that is described in the library's JSON: what is planned for it, nothing here can run.
    ///
    /// # Errors
    /// What the library says; unsupported before 9.8, which plans for a handle alone.
    pub fn described(library: &Arc<Cudnn>, json: &str) -> Result<Self, ProductError> {
        if !library.has(&since::PROPERTIES) {
            return Err(ProductError::Unsupported(since::PROPERTIES.lacks(&library.version())));
        }
        let properties = Descriptor::new(library, since::DEVICE)?;
        properties.set(DEVICE_AS_JSON, graph::TEXT, json.as_bytes())?;
        Ok(Self::new(library, Aim::Described(properties.finish()?)))
    }

    fn new(library: &Arc<Cudnn>, aim: Aim) -> Self {
        Self { library: library.clone(), aim: Mutex::new(aim) }
    }

    /// The library.
    pub fn library(&self) -> &Arc<Cudnn> {
        &self.library
    }

    /// Tells a description that it is made for this device.
    fn aim(&self, what: For, from: &Descriptor) -> Result<(), ProductError> {
        match &*self.aim.lock().unwrap_or_else(PoisonError::into_inner) {
            Aim::Opened(session) => {
                what.handle().map_or(Ok(()), |attribute| from.set(attribute, graph::HANDLE, &[session.handle]))
            }
            Aim::Described(properties) => {
                what.properties().map_or(Ok(()), |attribute| from.refer(attribute, properties))
            }
        }
    }

    /// Gives a plan to a stream, or to the device's own, with the places that its pack names.
    fn execute(&self, plan: &Descriptor, pack: &Descriptor, stream: Option<&Stream>) -> Result<(), ProductError> {
        match &*self.aim.lock().unwrap_or_else(PoisonError::into_inner) {
            Aim::Opened(session) => session.execute(plan, pack, stream),
            Aim::Described(_) => {
                Err(ProductError::Operation("a device that is only described runs nothing".to_owned()))
            }
        }
    }
}

/// cudnnHandle_t.
struct CudnnSession {
    library: Arc<Cudnn>,
    gpu: Arc<Gpu>,
    handle: CudnnHandle,
}

// SAFETY: the library's handle, which any one thread at a time may use.
unsafe impl Send for CudnnSession {}

impl CudnnSession {
    fn new(library: &Arc<Cudnn>, gpu: &Arc<Gpu>) -> Result<Self, ProductError> {
        let mut handle = ptr::null_mut();
        // SAFETY: as cudnn_graph.h declares it; the out-pointer is valid, and the device's context is current.
        library.succeeded("cudnnCreate", unsafe { (library.functions.create)(&mut handle) })?;
        Ok(Self { library: library.clone(), gpu: gpu.clone(), handle })
    }

    fn execute(&self, plan: &Descriptor, pack: &Descriptor, stream: Option<&Stream>) -> Result<(), ProductError> {
        let functions = &self.library.functions;
        // SAFETY: as cudnn_graph.h declares them: handle, stream and descriptors are alive.
        let set = unsafe { (functions.stream)(self.handle, self.gpu.stream_of(stream)) };
        self.library.succeeded("cudnnSetStream", set)?;
        // SAFETY: as above; who made the pack has checked each place.
        let executed = unsafe { (functions.execute)(self.handle, plan.handle(), pack.handle()) };
        self.library.succeeded("cudnnBackendExecute", executed)
    }
}

impl Drop for CudnnSession {
    fn drop(&mut self) {
        let _ = self.gpu.enter();
        // SAFETY: as cudnn_graph.h declares it: what it created, destroyed once.
        unsafe { (self.library.functions.destroy)(self.handle) };
    }
}

impl fmt::Debug for CudnnSession {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Session").field("gpu", &self.gpu).finish_non_exhaustive()
    }
}
