//! Graphs: what a stream was given once, to be given again as a whole.

use std::ptr;
use std::sync::Arc;

use super::driver::DriverHandle;
use super::{Gpu, Result, Stream};

/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may go on using the driver.
const OF_THIS_THREAD: u32 = 1;

/// What was captured, ready to be launched.
pub struct Graph {
    gpu: Arc<Gpu>,
    graph: DriverHandle,
}

// SAFETY: a handle of the driver's, which any one thread at a time may use.
unsafe impl Send for Graph {}

impl Gpu {
    /// From here on a stream, the device's own or another one of it, runs nothing of what this thread gives it, and keeps it. [`Gpu::end_capture`] follows in any case.
    ///
    /// # Errors
    /// What the driver says.
    pub fn begin_capture(&self, beside: Option<&Stream>) -> Result<()> {
        // SAFETY: as cuda.h declares it; the stream is alive.
        let begun = unsafe { (self.driver.functions.capture_begin)(self.stream_of(beside), OF_THIS_THREAD) };
        self.driver.succeeded("cuStreamBeginCapture", begun)
    }

    /// Ends it, and makes a graph of what was kept.
    ///
    /// # Errors
    /// What the driver says: a wait, or memory that was allocated in between, spoils a capture.
    pub fn end_capture(self: &Arc<Self>, beside: Option<&Stream>) -> Result<Graph> {
        let functions = &self.driver.functions;
        let (mut kept, mut graph) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let ended = unsafe { (functions.capture_end)(self.stream_of(beside), &mut kept) };
        self.driver.succeeded("cuStreamEndCapture", ended)?;
        // SAFETY: as cuda.h declares them; what was kept is no longer needed once a graph is made of it.
        let made = unsafe {
            let made = (functions.graph_instantiate)(&mut graph, kept, 0);
            (functions.graph_destroy)(kept);
            made
        };
        self.driver.succeeded("cuGraphInstantiateWithFlags", made)?;
        Ok(Graph { gpu: self.clone(), graph })
    }
}

impl Graph {
    /// Gives it to a stream: the device's own, or another one of it, which is waited for before the graph is dropped.
    ///
    /// # Errors
    /// What the driver says.
    #[inline]
    pub fn launch(&self, beside: Option<&Stream>) -> Result<()> {
        // SAFETY: as cuda.h declares it; graph and stream are alive.
        let launched = unsafe { (self.gpu.driver.functions.graph_launch)(self.graph, self.gpu.stream_of(beside)) };
        self.gpu.driver.succeeded("cuGraphLaunch", launched)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // What the driver says when things end, nobody can act on.
        let _ = self.gpu.enter();
        let _ = self.gpu.synchronise();
        // SAFETY: as cuda.h declares it; it has run, and nobody uses it afterwards.
        unsafe { (self.gpu.driver.functions.graph_exec_destroy)(self.graph) };
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Graph").finish_non_exhaustive()
    }
}
