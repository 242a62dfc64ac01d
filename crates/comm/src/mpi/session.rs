//! MPI in this process: initialised once, tested against known answers, finalised when the last communicator is gone.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use terms::{Dtype, Reduce};

use super::functions::MpiHandle;
use super::opened::{NAMES, Opened, Vendor};
use super::reduce::{USER, user_operator};
use super::selftest;
use crate::{Error, Result};

/// MPI, initialised.
pub(super) struct Session {
    pub(super) library: Opened,
    /// Rankmark's own operators, in the order of [`USER`].
    pub(super) operators: [MpiHandle; USER.len()],
    /// Operators on integers that the library has wrong.
    wrong_of_integers: Vec<(Dtype, Reduce)>,
    /// Several threads may call at once.
    multiple: bool,
    /// Something was left in the middle: finalising would wait for ever.
    poisoned: AtomicBool,
}

/// MPI can be initialised once in the life of a process.
enum Life {
    Before,
    Alive(Weak<Session>),
}

static LIFE: Mutex<Life> = Mutex::new(Life::Before);

impl Session {
    /// Initialises the library of this name or path (None: the first that the loader finds), or joins what is initialised
    /// already. `multiple`: several threads will call at once. Collective over all processes that were started together;
    /// `meet` waits until all of them have initialised it.
    ///
    /// # Errors
    /// Why the library cannot be used.
    pub(super) fn join(name: Option<&str>, multiple: bool, meet: &mut dyn FnMut() -> Result<()>) -> Result<Arc<Self>> {
        let mut life = LIFE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Life::Alive(session) = &*life {
            let session = session.upgrade().ok_or_else(|| unusable("MPI was finalised in this process already"))?;
            let asked = Opened::open(name.unwrap_or(&session.library.facts.path)).map_err(|why| unusable(&why))?;
            if asked.facts.path != session.library.facts.path {
                return Err(unusable("this process has initialised another MPI library already"));
            }
            if multiple && !session.multiple {
                return Err(unusable("MPI was initialised for one thread at a time"));
            }
            return Ok(session);
        }
        let library = find(name).map_err(|why| unusable(&why))?;
        let (operators, poisoned) = ([0; USER.len()], AtomicBool::new(true));
        let mut session = Self { library, operators, wrong_of_integers: Vec::new(), multiple, poisoned };
        session.initialise()?;
        // Under srun's PMIx a rank may leave MPI_Init while another one is still in it. A message would end that one by SIGSEGV:
        // Open MPI 4.1 calls a function that it has not set yet.
        meet()?;
        session.wrong_of_integers = selftest::wrong_of_integers(&session)?;
        session.poisoned = AtomicBool::new(false);
        let session = Arc::new(session);
        *life = Life::Alive(Arc::downgrade(&session));
        drop(life);
        selftest::run(&session)?;
        Ok(session)
    }

    fn initialise(&mut self) -> Result<()> {
        let (functions, constants) = (&self.library.functions, &self.library.constants);
        // Only one thread of this process ever calls MPI. The library need not know of the others, as in any program
        // with other libraries that have threads of their own. Rejected: MPI_THREAD_FUNNELED. With it Open MPI 4.1
        // takes its locks in every call, and a plain program that calls MPI_Init does not pay for these.
        let [single, multiple] = constants.threads;
        let (wanted, mut provided) = (if self.multiple { multiple } else { single }, 0);
        // SAFETY: MPI allows null for the arguments, and the process has not initialised it before.
        let code =
            unsafe { (functions.init_thread)(std::ptr::null_mut(), std::ptr::null_mut(), wanted, &mut provided) };
        self.check(code, "MPI_Init_thread")?;
        if provided < wanted {
            return Err(Error::Unsupported {
                backend: "mpi",
                what: format!(
                    "run a progress thread: {} does not grant MPI_THREAD_MULTIPLE",
                    self.library.facts.version()
                ),
            });
        }
        // SAFETY: handles of this library's own table; from here on errors are returned instead of ending the process.
        let code = unsafe { (functions.comm_set_errhandler)(constants.world, constants.errors_return) };
        self.check(code, "MPI_Comm_set_errhandler")?;
        let mut operators = [0; USER.len()];
        for ((_, _, function), handle) in USER.into_iter().zip(&mut operators) {
            // SAFETY: the function lives as long as the process and is commutative, which the 1 says.
            let code = unsafe { (functions.op_create)(function, 1, handle) };
            self.check(code, "MPI_Op_create")?;
        }
        self.operators = operators;
        Ok(())
    }

    /// An error of the library, in its own words.
    ///
    /// # Errors
    /// When the code is one.
    #[inline]
    pub(super) fn check(&self, code: c_int, what: &'static str) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(code, what)) }
    }

    #[cold]
    fn error(&self, code: c_int, what: &str) -> Error {
        Error::Library { what: what.to_owned(), said: self.library.functions.explain(code) }
    }

    /// What reduces elements of this type, and whether it is an operator of ours.
    pub(super) fn operator(&self, dtype: Dtype, reduce: Reduce) -> (MpiHandle, bool) {
        let ours = match dtype {
            Dtype::F16 | Dtype::Bf16 => true,
            _ => self.wrong_of_integers.contains(&(dtype, if reduce == Reduce::Avg { Reduce::Sum } else { reduce })),
        };
        match user_operator(dtype, reduce).filter(|_| ours) {
            Some(index) => (self.operators[index], true),
            None => (self.library.constants.operator(reduce), false),
        }
    }

    /// Whether the root of this rank may reduce in place. MPICH 4.0 crashes where it is not rank 0 and elements are many
    /// (4.0.2 of Debian; 5.0.2 does not).
    pub(super) fn reduces_in_place(&self, root: usize) -> bool {
        let facts = &self.library.facts;
        root == 0 || facts.vendor != Vendor::Mpich || !facts.number.starts_with("4.0")
    }

    /// Whether the library says that it takes addresses of GPUs' memory. Open MPI, MPICH and MVAPICH have the function, as an
    /// extension, where they were built with a header of it.
    pub(super) fn says_that_it_reaches_gpus(&self) -> bool {
        let Some(address) = self.library.library.symbol(c"MPIX_Query_cuda_support") else { return false };
        // SAFETY: the function of this name takes nothing and gives an `int`, in all three.
        let ask = unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn() -> c_int>(address) };
        // SAFETY: as above; MPI is initialised.
        unsafe { ask() == 1 }
    }

    /// A communicator's rank and size.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn place(&self, comm: MpiHandle) -> Result<(u32, u32)> {
        let (functions, mut rank, mut size) = (&self.library.functions, 0, 0);
        // SAFETY: a live communicator and an out-pointer.
        self.check(unsafe { (functions.comm_rank)(comm, &mut rank) }, "MPI_Comm_rank")?;
        // SAFETY: as above.
        self.check(unsafe { (functions.comm_size)(comm, &mut size) }, "MPI_Comm_size")?;
        Ok((u32::try_from(rank).unwrap_or(0), u32::try_from(size).unwrap_or(0)))
    }

    /// The communicator of the ranks of `comm` that give the same color, ordered by key; None without a color.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn split(&self, comm: MpiHandle, color: Option<u32>, key: u32) -> Result<Option<MpiHandle>> {
        let (functions, constants) = (&self.library.functions, &self.library.constants);
        // Zero, since a library of 32-bit handles writes the lower half only.
        let mut child: MpiHandle = 0;
        let color = color.map_or(constants.undefined, |color| color as c_int);
        // SAFETY: a live communicator and an out-pointer.
        let code = unsafe { (functions.comm_split)(comm, color, key as c_int, &mut child) };
        self.check(code, "MPI_Comm_split")?;
        Ok(Some(child).filter(|child| *child != constants.comm_null))
    }

    /// Frees a communicator on which nothing is in flight.
    pub(super) fn free(&self, mut comm: MpiHandle) {
        if !self.is_poisoned() {
            // SAFETY: the communicator is one that `split` gave, and nobody uses it any more. What goes wrong here
            // concerns nobody.
            unsafe { (self.library.functions.comm_free)(&mut comm) };
        }
    }

    /// Something was left in the middle.
    pub(super) fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_poisoned() {
            // SAFETY: initialised, every communicator of ours is gone, and nothing is in flight.
            unsafe { (self.library.functions.finalize)() };
        }
    }
}

fn unusable(why: &str) -> Error {
    Error::Unsupported { backend: "mpi", what: format!("use the library: {why}") }
}

/// The library of this name; without one the first that can be used, or why none can.
pub(super) fn find(name: Option<&str>) -> std::result::Result<Opened, String> {
    if let Some(name) = name {
        return Opened::open(name);
    }
    let mut reasons = Vec::new();
    for name in NAMES {
        match Opened::open(name) {
            Ok(opened) => return Ok(opened),
            Err(why) => reasons.push((name, why)),
        }
    }
    Err(most_telling(&reasons))
}

/// What the loader says behind the name of a file that it does not find: the library's, or that of one that it needs.
const ABSENT: &str = "cannot open shared object file: No such file";

/// Why none of these libraries can be used: what is wrong with one that is there, if any is.
fn most_telling(reasons: &[(&str, String)]) -> String {
    let is_there = |(name, why): &&(&str, String)| !why.starts_with(&format!("{name}: {ABSENT}"));
    reasons.iter().find(is_there).or(reasons.first()).map(|(_, why)| why.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_there_says_why_none_can_be_used() {
        let absent = |name: &'static str, file: &str| {
            (name, format!("{file}: cannot open shared object file: No such file or directory"))
        };
        let (first, second) = (absent("libmpi.so.40", "libmpi.so.40"), absent("libmpich.so.12", "libmpich.so.12"));
        assert_eq!(most_telling(&[first.clone(), second.clone()]), first.1);
        let unknown = ("libmpi.so", "/opt/libmpi.so calls itself `Some MPI`".to_owned());
        assert_eq!(most_telling(&[first.clone(), second.clone(), unknown.clone()]), unknown.1);
        let broken = absent("libmpi.so.12", "libfabric.so.1");
        assert_eq!(most_telling(&[first, second, broken.clone()]), broken.1);
    }
}
