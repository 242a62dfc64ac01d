//! Kernels of a text of PTX, and how they are given to a stream.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::driver::DriverHandle;
use super::{CudaError, Gpu, Result, Stream};

/// Threads of a block whose text says no other number, and blocks at most: enough to keep any device's memory busy; each thread goes on by all of them.
const THREADS: u32 = 256;
/// Threads of a block of [`Threads::Blocks`], where the kernel's text says no other number.
pub const BLOCK_THREADS: usize = THREADS as usize;
const BLOCKS: u64 = 2048;

/// A kernel that a device has loaded.
#[derive(Clone, Debug)]
pub struct Kernel {
    function: DriverHandle,
    name: String,
    /// Bytes of each of its parameters, as its text has them.
    sizes: Vec<usize>,
    /// Threads of a block, as its text has them.
    threads: u32,
    /// Bytes that each block shares besides what its text has: [`Gpu::share`].
    shared: u32,
}

// SAFETY: a handle of the driver's, which any thread may use.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    fn unloaded(text: &str, name: &str) -> Self {
        let (sizes, threads) = (parameters(text, name), threads(text, name).unwrap_or(THREADS));
        Self { function: ptr::null_mut(), name: name.to_owned(), sizes, threads, shared: 0 }
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// Eight bytes: an address, a count, the bits of an f64.
    Word(u64),
    /// Four bytes: a smaller count, the bits of an f32.
    Half(u32),
}

impl Argument {
    fn bytes(self) -> usize {
        match self {
            Self::Word(_) => 8,
            Self::Half(_) => 4,
        }
    }
}

/// Loads these kernels of a text: the driver compiles nothing else of it, which takes it seconds.
///
/// # Errors
/// What the driver says.
pub(super) fn load<const N: usize>(gpu: &Gpu, text: &str, names: [&str; N]) -> Result<[Kernel; N]> {
    let mut kernels = names.map(|name| Kernel::unloaded(text, name));
    fill(gpu, text, &mut kernels)?;
    Ok(kernels)
}

fn fill(gpu: &Gpu, text: &str, kernels: &mut [Kernel]) -> Result<()> {
    let functions = &gpu.driver.functions;
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let begun = Instant::now();
    let text = CString::new(part(text, &names))
        .map_err(|_| CudaError::refused("cuModuleLoadData", "a zero byte in the PTX"))?;
    let (module, how) = module_of(gpu, &text)?;
    gpu.loads.add(begun.elapsed(), how);
    for kernel in kernels {
        let name = CString::new(kernel.name.as_str()).unwrap_or_default();
        // SAFETY: as cuda.h declares it; the out-pointer is valid, and the name is a terminated string.
        let found = unsafe { (functions.module_function)(&mut kernel.function, module, name.as_ptr()) };
        gpu.driver.succeeded("cuModuleGetFunction", found)?;
    }
    Ok(())
}

/// How a text came to be code of the device.
enum How {
    /// The driver took the text, and compiled it where its own cache has not got it.
    ByDriver,
    /// This process compiled it, and kept what that made.
    Compiled,
    /// The code was kept before.
    Kept,
    /// The folder cannot be used, and why: the driver compiles instead.
    Unkept(String),
}

/// A text in the device: through the folder of compiled kernels, where there is one.
fn module_of(gpu: &Gpu, text: &CStr) -> Result<(DriverHandle, How)> {
    let why = match gpu.cache.get() {
        None => None,
        Some(Err(why)) => Some(why.clone()),
        Some(Ok(cache)) => {
            let compile = || compile(gpu, text).map_err(|error| error.to_string());
            let code = cache.code(text.to_bytes(), compile);
            match code.and_then(|code| Ok((load_image(gpu, &code.bytes).map_err(|error| error.to_string())?, code))) {
                Ok((module, code)) => return Ok((module, if code.is_new { How::Compiled } else { How::Kept })),
                Err(why) => Some(why),
            }
        }
    };
    let module = load_image(gpu, text.to_bytes_with_nul())?;
    Ok((module, why.map_or(How::ByDriver, How::Unkept)))
}

/// `image` is code of a device as [`compile`] makes it, or a terminated text of PTX. The module is never unloaded: the context takes it along.
fn load_image(gpu: &Gpu, image: &[u8]) -> Result<DriverHandle> {
    let mut module = ptr::null_mut();
    // SAFETY: as cuda.h declares it: code says its own length, and a text ends with zero.
    let loaded = unsafe { (gpu.driver.functions.module_load)(&mut module, image.as_ptr().cast()) };
    gpu.driver.succeeded("cuModuleLoadData", loaded).map(|()| module)
}

/// Code for the device, of a text.
fn compile(gpu: &Gpu, text: &CStr) -> Result<Vec<u8>> {
    /// CU_JIT_INPUT_PTX.
    const PTX: c_int = 1;
    let (driver, functions) = (&gpu.driver, &gpu.driver.functions);
    let (mut link, mut code, mut bytes) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: all as cuda.h declares them, without options: the text is terminated, and its length has that byte; the driver writes to
    // neither it nor its name. What the link made lives as long as the link, and is copied before that ends.
    unsafe {
        driver.succeeded("cuLinkCreate", (functions.link_create)(0, ptr::null_mut(), ptr::null_mut(), &mut link))?;
        let size = text.to_bytes_with_nul().len();
        let (data, name) = (text.as_ptr().cast_mut().cast(), c"kernels.ptx".as_ptr());
        let added = (functions.link_add)(link, PTX, data, size, name, 0, ptr::null_mut(), ptr::null_mut());
        let made = driver.succeeded("cuLinkAddData", added).and_then(|()| {
            driver.succeeded("cuLinkComplete", (functions.link_complete)(link, &mut code, &mut bytes))?;
            Ok(std::slice::from_raw_parts(code.cast::<u8>(), bytes).to_vec())
        });
        driver.succeeded("cuLinkDestroy", (functions.link_destroy)(link)).and(made)
    }
}

/// A text with these kernels alone, and with all that is not a kernel: functions and memory that they may use.
fn part(text: &str, names: &[&str]) -> String {
    let mut kept = String::new();
    let mut is_kept = true;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.split(".entry ").nth(1).filter(|_| line.starts_with('.')) {
            let name = rest.split('(').next().unwrap_or_default();
            is_kept = names.contains(&name);
        }
        if is_kept {
            kept.push_str(line);
        }
        // The end of a function: what follows is the next one's.
        is_kept |= line.trim_end() == "}";
    }
    kept
}

/// What became of the parts of texts that this process has loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loading {
    /// How many.
    pub texts: u32,
    /// How long all of it took: compiling, or waiting for another process that does, included.
    pub took: Duration,
    /// Compiled by this process, and kept.
    pub compiled: u32,
    /// Kept before, by this process or another one.
    pub kept: u32,
    /// Why the last of the others was not kept, where it was to be.
    pub unkept: Option<String>,
}

impl fmt::Display for Loading {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { texts, took, compiled, kept, unkept } = self;
        write!(to, "{texts} parts of texts in {:.1} s", took.as_secs_f64())?;
        if compiled + kept > 0 {
            write!(to, ": {compiled} compiled here, {kept} compiled before")?;
        }
        unkept.iter().try_for_each(|why| write!(to, "; not kept: {why}"))
    }
}

/// The sum so far.
#[derive(Debug, Default)]
pub(super) struct Loads(Mutex<Loading>);

impl Loads {
    fn add(&self, took: Duration, how: How) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.texts += 1;
        all.took += took;
        match how {
            How::ByDriver => {}
            How::Compiled => all.compiled += 1,
            How::Kept => all.kept += 1,
            How::Unkept(why) => all.unkept = Some(why),
        }
    }
}

/// Sizes of the parameters of a kernel, from its text.
fn parameters(text: &str, kernel: &str) -> Vec<usize> {
    let head = format!(".entry {kernel}(");
    let Some(begin) = text.find(&head).map(|at| at + head.len()) else { return Vec::new() };
    let list = text[begin..].split(')').next().unwrap_or_default();
    list.split(',')
        .filter_map(|each| each.trim().strip_prefix(".param .u")?.split(' ').next()?.parse::<usize>().ok())
        .map(|bits| bits / 8)
        .collect()
}

/// Most threads of a block, from the kernel's text: it is compiled for as many.
fn threads(text: &str, kernel: &str) -> Option<u32> {
    let head = text.split(&format!(".entry {kernel}(")).nth(1)?.split('{').next()?;
    head.split(".maxntid ").nth(1)?.split(',').next()?.trim().parse().ok()
}

/// How many threads work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One for each of so many elements, as far as the device keeps busy.
    Elements(u64),
    /// As many blocks, as far as the device keeps busy, of [`BLOCK_THREADS`] threads each or as many as the kernel's text says.
    Blocks(u64),
    /// So many blocks and no fewer: each has work of its own.
    Each(u32),
    /// One.
    One,
}

impl Gpu {
    /// What became of the texts of kernels that this process has loaded.
    pub fn loading(&self) -> Loading {
        self.loads.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As [`Self::load`], of names that are made at run time.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load_named(self: &Arc<Self>, text: &str, names: &[String]) -> Result<Vec<Kernel>> {
        self.enter()?;
        let before = self.free_bytes()?;
        let mut kernels: Vec<Kernel> = names.iter().map(|name| Kernel::unloaded(text, name)).collect();
        fill(self, text, &mut kernels)?;
        self.take(before)?;
        Ok(kernels)
    }

    /// Loads kernels of a text of PTX, and nothing else of it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load<const N: usize>(self: &Arc<Self>, text: &str, names: [&str; N]) -> Result<[Kernel; N]> {
        self.enter()?;
        let before = self.free_bytes()?;
        let kernels = load(self, text, names)?;
        self.take(before)?;
        Ok(kernels)
    }

    /// Gives each block of a kernel so many bytes of shared memory, besides what its text has: more than 48 KiB must be asked for.
    ///
    /// # Errors
    /// What the driver says: a block of this GPU has less.
    pub fn share(&self, kernel: &mut Kernel, bytes: u32) -> Result<()> {
        /// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
        const SHARED: c_int = 8;
        // SAFETY: as cuda.h declares it; the function is loaded.
        let set = unsafe { (self.driver.functions.function_set)(kernel.function, SHARED, bytes as c_int) };
        self.driver.succeeded("cuFuncSetAttribute", set)?;
        kernel.shared = bytes;
        Ok(())
    }

    /// Gives a kernel to a stream, the device's own or another one of it, after its arguments were compared with its text.
    ///
    /// # Errors
    /// What the driver says; refused for arguments of other sizes.
    ///
    /// # Safety
    /// The arguments are what the kernel expects: addresses of memory that the device reaches, of the lengths that it goes
    /// through.
    pub unsafe fn launch(
        &self,
        kernel: &Kernel,
        threads: Threads,
        arguments: &mut [Argument],
        beside: Option<&Stream>,
    ) -> Result<()> {
        let given: Vec<usize> = arguments.iter().map(|argument| argument.bytes()).collect();
        if given != kernel.sizes {
            let said = format!("{} takes {:?} bytes, not {given:?}", kernel.name, kernel.sizes);
            return Err(CudaError::refused("cuLaunchKernel", said));
        }
        let (blocks, width) = match threads {
            Threads::Elements(count) => {
                (count.div_ceil(u64::from(kernel.threads)).clamp(1, BLOCKS) as c_uint, kernel.threads)
            }
            Threads::Blocks(count) => (count.clamp(1, BLOCKS) as c_uint, kernel.threads),
            Threads::Each(count) => (count.max(1), kernel.threads),
            Threads::One => (1, 1),
        };
        let mut places: Vec<*mut c_void> = arguments
            .iter_mut()
            .map(|argument| match argument {
                Argument::Word(word) => ptr::from_mut(word).cast(),
                Argument::Half(half) => ptr::from_mut(half).cast(),
            })
            .collect();
        let (launch, places, none) = (self.driver.functions.launch, places.as_mut_ptr(), ptr::null_mut());
        let stream = self.stream_of(beside);
        // SAFETY: as cuda.h declares it: the driver copies the arguments, whose number and sizes are those of the kernel.
        let launched =
            unsafe { launch(kernel.function, blocks, 1, 1, width, 1, 1, kernel.shared, stream, places, none) };
        self.driver.succeeded("cuLaunchKernel", launched)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CHECK, LOOPS};
    use super::*;

    #[test]
    fn parameters_are_those_of_the_text() {
        assert_eq!(parameters(CHECK, "fill_8"), [8, 8, 8, 4, 4]);
        assert_eq!(parameters(CHECK, "compare_64"), [8, 8, 8, 4, 4, 8]);
        assert_eq!(parameters(CHECK, "no_such_kernel"), []);
        for width in [8, 16, 32, 64] {
            assert_eq!(parameters(CHECK, &format!("fill_{width}")).len(), 5);
        }
        assert_eq!([parameters(LOOPS, "loop_copy"), parameters(LOOPS, "loop_triad")], [vec![8; 3], vec![8; 4]]);
        assert_eq!(parameters(LOOPS, "chase"), [8; 4]);
    }

    #[test]
    fn threads_of_a_block_are_those_of_the_text() {
        let text = ".visible .entry one(\n.param .u64 a\n)\n.maxntid 128, 1, 1\n.minnctapersm 2\n{\nret;\n}\n\
                    .visible .entry two(\n.param .u32 b\n)\n{\nret;\n}\n.visible .entry three(\n)\n.maxntid 256, 1, 1\n{\nret;\n}\n";
        assert_eq!(["one", "two", "three", "four"].map(|name| threads(text, name)), [Some(128), None, Some(256), None]);
    }

    #[test]
    fn a_part_of_a_text_has_the_kernels_that_were_asked_for_and_all_else() {
        let text = ".version 7.8\n.func (.param .b64 r) help\n(\n.param .b64 a\n)\n{\nret;\n}\n.shared .b8 parts[4];\n\
                    .visible .entry one(\n.param .u64 a\n)\n{\nret;\n\n}\n.visible .entry two(\n.param .u32 b\n)\n{\nret;\n}\n\
                    .func after\n(\n)\n{\nret;\n}\n";
        let two = part(text, &["two"]);
        assert!(!two.contains("one(") && two.contains(".entry two(") && two.contains("parts[4]"), "{two}");
        assert!(
            two.starts_with(".version 7.8\n.func (.param .b64 r) help")
                && two.ends_with(".func after\n(\n)\n{\nret;\n}\n")
        );
        assert_eq!(two.matches('{').count(), two.matches('}').count());
        assert_eq!(part(text, &["one", "two"]), text);
        for name in ["fill_8", "compare_64"] {
            let alone = part(CHECK, &[name]);
            assert_eq!((alone.matches(".entry ").count(), parameters(&alone, name)), (1, parameters(CHECK, name)));
        }
    }

    #[test]
    fn the_texts_run_on_old_drivers_and_devices() {
        for text in [CHECK, LOOPS] {
            assert!(text.contains(".version 7.8\n") && text.contains(".target sm_70\n"));
        }
    }
}
