//! Opening a backend by name, with the wrappers that the options ask for.

use terms::UnknownName;

use crate::staged::Staged;
use crate::{
    Abort, Backend, Bootstrap, Communicator, Error, GpuMemory, Model, Options, Paced, Progress, RankPlacement, Result,
    Threaded, backend, backends, gpus,
};

/// Opens the backend of this name and wraps it as the options demand: paced, and around that a progress thread where
/// nothing else makes work proceed, so that the thread and not the caller sleeps until a deadline. With GPUs, a backend of the
/// host moves their memory by way of the host's. Collective.
///
/// Observing is the caller's, outermost: see [`crate::Observed`].
///
/// # Errors
/// [`Error::UnknownBackend`] with the nearest name; what the backend could not open.
pub fn open(name: &str, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
    let backend = backend(name).ok_or_else(|| unknown(name))?;
    check_pace(backend, &bootstrap.place(), options)?;
    // First: an MPI library that knows of GPUs finds the rank's context when it is initialised.
    let gpu = gpu(backend, bootstrap, options)?;
    let (mut communicator, abort) = backend.open(bootstrap, options)?;
    if let Some(gpu) = gpu {
        let name = backend.about().name;
        return Ok((Box::new(Staged::new(communicator, gpu, abort.clone(), (name, options.oversubscribed))?), abort));
    }
    if let Some(pace) = options.pace {
        communicator = Box::new(Paced::new(communicator, pace, abort.clone(), options));
    }
    let progress = communicator.shape().capabilities.progress;
    if options.progress_thread && matches!(progress, Progress::Caller | Progress::Poll) {
        communicator = Box::new(Threaded::new(communicator, abort.clone(), options)?);
    }
    Ok((communicator, abort))
}

/// Refuses a paced link between hosts: ranks agree on the instant at which an operation ends, but each host's clock
/// counts from the start of that host. A rank would sleep until its host has run as long as the others.
fn check_pace(backend: &dyn Backend, place: &RankPlacement, options: &Options) -> Result<()> {
    if options.pace.is_none() || place.here >= place.size {
        return Ok(());
    }
    let what = "slow down links between hosts: their clocks differ (hint: put all ranks on one host)".to_owned();
    Err(Error::Unsupported { backend: backend.about().name, what })
}

/// What computes the times of a world of this backend without its ranks; None where only ranks can tell them.
///
/// # Errors
/// Own options that cannot be read.
pub fn model(name: &str, options: &Options) -> Result<Option<Box<dyn Model>>> {
    // What wraps a communicator delays ranks in real time.
    let is_wrapped = options.gpus || options.pace.is_some() || options.progress_thread;
    match backend(name) {
        Some(backend) if !is_wrapped => backend.model(&options.own),
        _ => Ok(None),
    }
}

/// The rank's GPU, where calls on its memory go through the host. Collective.
fn gpu(backend: &dyn Backend, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<Option<gpus::Opened>> {
    let name = backend.about().name;
    let unsupported = |what: &str| Err(Error::Unsupported { backend: name, what: what.to_owned() });
    match backend.gpu_memory() {
        _ if !options.gpus => Ok(None),
        GpuMemory::Itself => Ok(None),
        GpuMemory::Never => unsupported("move GPU memory"),
        GpuMemory::ThroughHost if options.progress_thread => unsupported("move GPU memory with a progress thread"),
        GpuMemory::ThroughHost if options.pace.is_some() => unsupported("slow down links for GPU memory"),
        GpuMemory::ThroughHost => gpus::open(bootstrap, name, || Ok(())).map(|(opened, ())| Some(opened)),
    }
}

fn unknown(name: &str) -> Error {
    let known = backends().map(|backend| backend.about().name).collect();
    Error::UnknownBackend(UnknownName::among("backend", name, known))
}
