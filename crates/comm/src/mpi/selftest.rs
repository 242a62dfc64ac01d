//! Known answers: every constant of the table is used once in a call with a known result. A library with other numbers
//! is refused before anything is measured. Collective over all processes.

use std::ffi::{c_int, c_void};

use terms::{Dtype, Named, Reduce};

use super::functions::{MpiHandle, UserFunction};
use super::reduce::USER;
use super::session::Session;
use crate::{Error, Result};

/// Runs all of them.
///
/// # Errors
/// The first answer that is wrong.
pub(super) fn run(session: &Session) -> Result<()> {
    let world = session.library.constants.world;
    let (rank, size) = session.place(world)?;
    for dtype in Dtype::ALL.iter().filter(|dtype| dtype.reduces() && session.library.constants.has(**dtype)) {
        for reduce in [Reduce::Sum, Reduce::Prod, Reduce::Min, Reduce::Max] {
            reduces(session, *dtype, reduce, (rank, size))?;
        }
    }
    completes(session, (rank, size))?;
    sends(session, (rank, size))?;
    splits(session, rank)
}

/// Operators that the library has, but that treat integers differently from numbers that wrap and have the sign of their
/// type. The check takes pairs of a few hundred values: enough for the library to use its vector code.
///
/// # Errors
/// What the library says.
pub(super) fn wrong_of_integers(session: &Session) -> Result<Vec<(Dtype, Reduce)>> {
    let constants = &session.library.constants;
    let mut found = Vec::new();
    for (dtype, reduce, ours) in USER.into_iter().filter(|(dtype, ..)| !dtype.is_float() && constants.has(*dtype)) {
        if !combines_like(session, dtype, reduce, ours)? {
            found.push((dtype, reduce));
        }
    }
    Ok(found)
}

/// Whether the library combines pairs as our own operator does.
fn combines_like(session: &Session, dtype: Dtype, reduce: Reduce, ours: UserFunction) -> Result<bool> {
    const PAIRS: u64 = 512;
    let (constants, functions) = (&session.library.constants, &session.library.functions);
    // The highest byte of one side takes all values; the others are mixed up by odd factors.
    let words = |of: &dyn Fn(u64) -> u64| -> Vec<u64> {
        let size = dtype.bytes() as usize;
        let bytes: Vec<u8> =
            (0..PAIRS).flat_map(|i| (of(i) >> (64 - 8 * size)).to_ne_bytes()[..size].to_vec()).collect();
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))).collect()
    };
    let mut a = words(&|i| i << 56 | i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8);
    let mut got = words(&|i| {
        if i < PAIRS / 2 { 100 << 56 | i } else { (i * 37) << 56 | i.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8 }
    });
    let mut wanted = got.clone();
    let (a, mut count) = (a.as_mut_ptr().cast::<c_void>(), PAIRS as c_int);
    let (datatype, operator) = (constants.datatype(dtype), constants.operator(reduce));
    // SAFETY: as many elements on each side as are counted, in words, so that they are aligned for every type.
    let code = unsafe { (functions.reduce_local)(a, got.as_mut_ptr().cast(), count, datatype, operator) };
    session.check(code, "MPI_Reduce_local")?;
    ours(a, wanted.as_mut_ptr().cast(), &mut count, &mut 0);
    Ok(got == wanted)
}

fn wrong(session: &Session, what: &str) -> Error {
    let facts = &session.library.facts;
    Error::Mismatch(format!(
        "{} ({}) gave a wrong answer to a known question, {what}: its numbers are not those of the {}",
        facts.version(),
        facts.path,
        facts.abi
    ))
}

/// Two elements, in place: the first rank gives (3, 2), the last (2, 3), those between what changes nothing.
fn reduces(session: &Session, dtype: Dtype, reduce: Reduce, (rank, size): (u32, u32)) -> Result<()> {
    let (constants, functions) = (&session.library.constants, &session.library.functions);
    let (operator, _) = session.operator(dtype, reduce);
    let own = match rank {
        0 => [3, 2],
        _ if rank + 1 == size => [2, 3],
        _ => [neutral(reduce); 2],
    };
    let expected = if size == 1 { own } else { [answer(reduce); 2] };
    // Whole words, so that it is aligned for every type.
    let mut words = [0u64; 2];
    let given = both(dtype, own);
    // SAFETY: at most 16 bytes; the elements begin at an aligned address.
    let code = unsafe {
        std::ptr::copy_nonoverlapping(given.as_ptr(), words.as_mut_ptr().cast(), given.len());
        let to = words.as_mut_ptr().cast::<c_void>();
        (functions.allreduce)(constants.in_place, to, 2, constants.datatype(dtype), operator, constants.world)
    };
    session.check(code, "MPI_Allreduce")?;
    let got: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take(given.len()).collect();
    if got == both(dtype, expected) { Ok(()) } else { Err(wrong(session, &format!("{reduce} of {dtype}"))) }
}

const fn neutral(reduce: Reduce) -> i64 {
    match reduce {
        Reduce::Sum | Reduce::Avg | Reduce::Max => 0,
        Reduce::Prod => 1,
        Reduce::Min => 100,
    }
}

/// What 3 and 2 give: another number for each operator.
const fn answer(reduce: Reduce) -> i64 {
    match reduce {
        Reduce::Sum | Reduce::Avg => 5,
        Reduce::Prod => 6,
        Reduce::Min => 2,
        Reduce::Max => 3,
    }
}

fn both(dtype: Dtype, values: [i64; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.into_iter().for_each(|value| encode(dtype, value, &mut bytes));
    bytes
}

fn encode(dtype: Dtype, value: i64, bytes: &mut Vec<u8>) {
    match dtype {
        Dtype::F32 => bytes.extend((value as f32).to_ne_bytes()),
        Dtype::F64 => bytes.extend((value as f64).to_ne_bytes()),
        Dtype::F16 => bytes.extend(half::f16::from_f64(value as f64).to_ne_bytes()),
        Dtype::Bf16 => bytes.extend(half::bf16::from_f64(value as f64).to_ne_bytes()),
        // The lower bytes of a whole number are the same with a sign and without.
        Dtype::I32 | Dtype::U32 => bytes.extend((value as i32).to_ne_bytes()),
        Dtype::I64 | Dtype::U64 => bytes.extend(value.to_ne_bytes()),
        Dtype::I8 | Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => bytes.push(value as u8),
    }
}

/// A non-blocking broadcast of three bytes from the last rank, tested until it is complete.
fn completes(session: &Session, (rank, size): (u32, u32)) -> Result<()> {
    let (constants, functions) = (&session.library.constants, &session.library.functions);
    let root = size - 1;
    let mut bytes = if rank == root { [7u8, 8, 9] } else { [0; 3] };
    let (mut request, mut done): (MpiHandle, c_int) = (0, 0);
    let datatype = constants.datatype(Dtype::U8);
    // SAFETY: three bytes that live until the loop below has seen the request complete.
    let code = unsafe {
        (functions.ibcast)(bytes.as_mut_ptr().cast(), 3, datatype, root as c_int, constants.world, &mut request)
    };
    session.check(code, "MPI_Ibcast")?;
    while done == 0 {
        // SAFETY: the request that was started above, and an out-pointer.
        let code = unsafe { (functions.test)(&mut request, &mut done, constants.status_ignore) };
        session.check(code, "MPI_Test")?;
    }
    let over = request == constants.request_null || Some(request) == constants.request_empty;
    if over && bytes == [7, 8, 9] {
        return Ok(());
    }
    Err(wrong(session, "a broadcast that does not block"))
}

/// A message round the ring.
fn sends(session: &Session, (rank, size): (u32, u32)) -> Result<()> {
    let (constants, functions) = (&session.library.constants, &session.library.functions);
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let (given, mut got, datatype) = (i64::from(rank), -1i64, constants.datatype(Dtype::I64));
    // SAFETY: one element on each side.
    let code = unsafe {
        (functions.sendrecv)(
            std::ptr::from_ref(&given).cast(),
            1,
            datatype,
            next as c_int,
            3,
            std::ptr::from_mut(&mut got).cast(),
            1,
            datatype,
            previous as c_int,
            3,
            constants.world,
            constants.status_ignore,
        )
    };
    session.check(code, "MPI_Sendrecv")?;
    if got == i64::from(previous) { Ok(()) } else { Err(wrong(session, "a message round the ring")) }
}

/// The first rank alone; the others give no color.
fn splits(session: &Session, rank: u32) -> Result<()> {
    let child = session.split(session.library.constants.world, (rank == 0).then_some(0), 0)?;
    let place = child.map(|child| session.place(child)).transpose()?;
    if let Some(child) = child {
        session.free(child);
    }
    if place == (rank == 0).then_some((0, 1)) { Ok(()) } else { Err(wrong(session, "a split")) }
}
