//! One call of MPI, or a little local work between two: what a [`crate::Call`] is made of.

use std::ffi::{c_int, c_void};

use terms::Dtype;

use super::functions::MpiHandle;
use super::reduce;
use super::session::Session;

/// Elements of one datatype.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatatypeCount {
    pub(super) datatype: MpiHandle,
    /// Null where nothing is reduced.
    pub(super) operator: MpiHandle,
}

/// A step. Pointers are into the call's buffers, its scratch memory, or MPI_IN_PLACE; counts are elements.
#[derive(Debug)]
pub(super) enum MpiStep {
    Barrier,
    Bcast {
        data: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
        root: c_int,
    },
    Allreduce {
        from: *const c_void,
        to: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
    },
    Reduce {
        from: *const c_void,
        to: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
        root: c_int,
    },
    ReduceScatter {
        from: *const c_void,
        to: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
    },
    Allgather {
        from: *const c_void,
        to: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
    },
    Gather {
        from: *const c_void,
        to: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
        root: c_int,
    },
    Scatter {
        from: *const c_void,
        to: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
        root: c_int,
    },
    Alltoall {
        from: *const c_void,
        to: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
    },
    Alltoallv {
        from: *const c_void,
        to: *mut c_void,
        uneven: Box<Uneven>,
        kind: DatatypeCount,
    },
    Send {
        from: *const c_void,
        count: c_int,
        kind: DatatypeCount,
        rank: c_int,
        tag: c_int,
    },
    Recv {
        to: *mut c_void,
        count: c_int,
        kind: DatatypeCount,
        rank: c_int,
        tag: c_int,
    },
    /// Sends and receives at once.
    Exchange {
        send: ExchangeSide,
        receive: ExchangeSide,
        kind: DatatypeCount,
        tag: c_int,
    },
    Copy {
        from: *const u8,
        to: *mut u8,
        bytes: usize,
    },
    Divide {
        at: *mut u8,
        count: usize,
        dtype: Dtype,
        by: u32,
    },
}

/// One side of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangeSide {
    pub(super) data: *mut c_void,
    pub(super) count: c_int,
    pub(super) rank: c_int,
}

/// Counts and displacements of an all_to_allv. The library reads them until the operation is complete.
#[derive(Debug)]
pub(super) struct Uneven {
    pub(super) sent: Vec<c_int>,
    pub(super) sent_at: Vec<c_int>,
    pub(super) received: Vec<c_int>,
    pub(super) received_at: Vec<c_int>,
}

impl MpiStep {
    /// Runs it to its end on the calling thread. Gives MPI's code.
    ///
    /// # Safety
    /// The pointers must hold as many elements as the counts say, and the communicator be alive.
    pub(super) unsafe fn run(&self, session: &Session, comm: MpiHandle) -> c_int {
        let (f, ignore) = (&session.library.functions, session.library.constants.status_ignore);
        // SAFETY: as the caller promises; the functions have the signatures that the standard gives them.
        unsafe {
            match self {
                Self::Barrier => (f.barrier)(comm),
                Self::Bcast { data, count, kind, root } => (f.bcast)(*data, *count, kind.datatype, *root, comm),
                Self::Allreduce { from, to, count, kind } => {
                    (f.allreduce)(*from, *to, *count, kind.datatype, kind.operator, comm)
                }
                Self::Reduce { from, to, count, kind, root } => {
                    (f.reduce)(*from, *to, *count, kind.datatype, kind.operator, *root, comm)
                }
                Self::ReduceScatter { from, to, count, kind } => {
                    (f.reduce_scatter_block)(*from, *to, *count, kind.datatype, kind.operator, comm)
                }
                Self::Allgather { from, to, count, kind: DatatypeCount { datatype, .. } } => {
                    (f.allgather)(*from, *count, *datatype, *to, *count, *datatype, comm)
                }
                Self::Gather { from, to, count, kind: DatatypeCount { datatype, .. }, root } => {
                    (f.gather)(*from, *count, *datatype, *to, *count, *datatype, *root, comm)
                }
                Self::Scatter { from, to, count, kind: DatatypeCount { datatype, .. }, root } => {
                    (f.scatter)(*from, *count, *datatype, *to, *count, *datatype, *root, comm)
                }
                Self::Alltoall { from, to, count, kind: DatatypeCount { datatype, .. } } => {
                    (f.alltoall)(*from, *count, *datatype, *to, *count, *datatype, comm)
                }
                Self::Alltoallv { from, to, uneven, kind: DatatypeCount { datatype, .. } } => (f.alltoallv)(
                    *from,
                    uneven.sent.as_ptr(),
                    uneven.sent_at.as_ptr(),
                    *datatype,
                    *to,
                    uneven.received.as_ptr(),
                    uneven.received_at.as_ptr(),
                    *datatype,
                    comm,
                ),
                Self::Send { from, count, kind, rank, tag } => {
                    (f.send)(*from, *count, kind.datatype, *rank, *tag, comm)
                }
                Self::Recv { to, count, kind, rank, tag } => {
                    (f.recv)(*to, *count, kind.datatype, *rank, *tag, comm, ignore)
                }
                Self::Exchange { send, receive, kind: DatatypeCount { datatype, .. }, tag } => (f.sendrecv)(
                    send.data,
                    send.count,
                    *datatype,
                    send.rank,
                    *tag,
                    receive.data,
                    receive.count,
                    *datatype,
                    receive.rank,
                    *tag,
                    comm,
                    ignore,
                ),
                Self::Copy { .. } | Self::Divide { .. } => self.work(),
            }
        }
    }

    /// Starts it; what must complete is appended to `requests`. Gives MPI's code.
    ///
    /// # Safety
    /// As [`MpiStep::run`], until the requests are complete; the step must live as long.
    pub(super) unsafe fn begin(&self, session: &Session, comm: MpiHandle, requests: &mut Vec<MpiHandle>) -> c_int {
        let f = &session.library.functions;
        let mut request: MpiHandle = 0;
        let r = &mut request;
        // SAFETY: as the caller promises; the functions have the signatures that the standard gives them.
        let code = unsafe {
            match self {
                Self::Barrier => (f.ibarrier)(comm, r),
                Self::Bcast { data, count, kind, root } => (f.ibcast)(*data, *count, kind.datatype, *root, comm, r),
                Self::Allreduce { from, to, count, kind } => {
                    (f.iallreduce)(*from, *to, *count, kind.datatype, kind.operator, comm, r)
                }
                Self::Reduce { from, to, count, kind, root } => {
                    (f.ireduce)(*from, *to, *count, kind.datatype, kind.operator, *root, comm, r)
                }
                Self::ReduceScatter { from, to, count, kind } => {
                    (f.ireduce_scatter_block)(*from, *to, *count, kind.datatype, kind.operator, comm, r)
                }
                Self::Allgather { from, to, count, kind: DatatypeCount { datatype, .. } } => {
                    (f.iallgather)(*from, *count, *datatype, *to, *count, *datatype, comm, r)
                }
                Self::Gather { from, to, count, kind: DatatypeCount { datatype, .. }, root } => {
                    (f.igather)(*from, *count, *datatype, *to, *count, *datatype, *root, comm, r)
                }
                Self::Scatter { from, to, count, kind: DatatypeCount { datatype, .. }, root } => {
                    (f.iscatter)(*from, *count, *datatype, *to, *count, *datatype, *root, comm, r)
                }
                Self::Alltoall { from, to, count, kind: DatatypeCount { datatype, .. } } => {
                    (f.ialltoall)(*from, *count, *datatype, *to, *count, *datatype, comm, r)
                }
                Self::Alltoallv { from, to, uneven, kind: DatatypeCount { datatype, .. } } => (f.ialltoallv)(
                    *from,
                    uneven.sent.as_ptr(),
                    uneven.sent_at.as_ptr(),
                    *datatype,
                    *to,
                    uneven.received.as_ptr(),
                    uneven.received_at.as_ptr(),
                    *datatype,
                    comm,
                    r,
                ),
                Self::Send { from, count, kind, rank, tag } => {
                    (f.isend)(*from, *count, kind.datatype, *rank, *tag, comm, r)
                }
                Self::Recv { to, count, kind, rank, tag } => {
                    (f.irecv)(*to, *count, kind.datatype, *rank, *tag, comm, r)
                }
                Self::Exchange { send, receive, kind: DatatypeCount { datatype, .. }, tag } => {
                    let code = (f.irecv)(receive.data, receive.count, *datatype, receive.rank, *tag, comm, r);
                    if code != 0 {
                        return code;
                    }
                    requests.push(*r);
                    *r = 0;
                    (f.isend)(send.data, send.count, *datatype, send.rank, *tag, comm, r)
                }
                Self::Copy { .. } | Self::Divide { .. } => return self.work(),
            }
        };
        if code == 0 {
            requests.push(request);
        }
        code
    }

    /// Local work; zero, as MPI says that all is well.
    ///
    /// # Safety
    /// As [`MpiStep::run`]; nothing that uses the same memory may be in flight.
    unsafe fn work(&self) -> c_int {
        match self {
            // SAFETY: as the caller promises; both sides belong to this call and do not overlap.
            Self::Copy { from, to, bytes } => unsafe { std::ptr::copy_nonoverlapping(*from, *to, *bytes) },
            // SAFETY: as the caller promises.
            Self::Divide { at, count, dtype, by } => unsafe { reduce::divide(*dtype, *at, *count, *by) },
            _ => {}
        }
        0
    }
}
