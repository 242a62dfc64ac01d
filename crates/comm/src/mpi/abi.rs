//! The three binary interfaces of MPI: what handles and constants look like in each, and which one a library has.
//!
//! Sources of the numbers: `mpi_abi.h` of the MPI-5 standard ABI, `mpi.h` of MPICH, and `mpi.h` of Open MPI. Intel MPI,
//! MVAPICH and Cray share MPICH's ABI. Handles of Open MPI are the addresses of data that the library exports.
//! `selftest.rs` calls the library at hand to check that the numbers fit it.

use std::ffi::{CStr, c_int, c_void};

use terms::{Dtype, Reduce};

use super::functions::MpiHandle;
use super::library::Library;

/// A binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abi {
    /// The interface of the MPI-5 standard.
    Standard,
    /// The interface of MPICH and its descendants.
    Mpich,
    /// The interface of Open MPI.
    OpenMpi,
}

impl Abi {
    /// "MPI-5 standard ABI".
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Standard => "MPI-5 standard ABI",
            Self::Mpich => "MPICH ABI",
            Self::OpenMpi => "Open MPI",
        }
    }
}

/// What the calls need of an ABI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    pub(super) world: MpiHandle,
    pub(super) comm_null: MpiHandle,
    pub(super) request_null: MpiHandle,
    /// What a request is after its completion where coll/ucc of Open MPI 4.1 ran it. The standard wants the null one, which
    /// later versions give.
    pub(super) request_empty: Option<MpiHandle>,
    pub(super) errors_return: MpiHandle,
    /// In the order of [`TYPES`].
    types: [MpiHandle; TYPES.len()],
    /// sum, prod, min, max.
    operators: [MpiHandle; 4],
    pub(super) in_place: *const c_void,
    pub(super) status_ignore: *mut c_void,
    pub(super) undefined: c_int,
    /// MPI_THREAD_SINGLE and MPI_THREAD_MULTIPLE.
    pub(super) threads: [c_int; 2],
}

// SAFETY: the pointers are constants that stand for something; nothing is read or written through them.
unsafe impl Send for Constants {}
// SAFETY: as above.
unsafe impl Sync for Constants {}

/// f16 and bf16 travel as 16-bit words, FP8 as bytes.
const TYPES: [&str; 9] =
    ["uint8_t", "uint16_t", "int32_t", "int64_t", "float", "double", "int8_t", "uint32_t", "uint64_t"];
/// Types that a library may lack: elements of theirs are then refused.
const OPTIONAL: &[&str] = &["int8_t", "uint32_t", "uint64_t"];
/// In place of the handle of a type that a library lacks.
const LACKING: MpiHandle = 0;

impl Constants {
    /// The datatype that elements of this type travel as.
    pub(super) const fn datatype(&self, dtype: Dtype) -> MpiHandle {
        self.types[match dtype {
            Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => 0,
            Dtype::F16 | Dtype::Bf16 => 1,
            Dtype::I32 => 2,
            Dtype::I64 => 3,
            Dtype::F32 => 4,
            Dtype::F64 => 5,
            Dtype::I8 => 6,
            Dtype::U32 => 7,
            Dtype::U64 => 8,
        }]
    }

    /// Whether the library has a datatype for these elements.
    pub(super) const fn has(&self, dtype: Dtype) -> bool {
        self.datatype(dtype) != LACKING
    }

    /// The library's own operator; an average is a sum that is divided afterwards.
    pub(super) const fn operator(&self, reduce: Reduce) -> MpiHandle {
        self.operators[match reduce {
            Reduce::Sum | Reduce::Avg => 0,
            Reduce::Prod => 1,
            Reduce::Min => 2,
            Reduce::Max => 3,
        }]
    }

    /// Constants of this library, which has this ABI.
    ///
    /// # Errors
    /// The symbols that it lacks.
    pub(super) fn load(abi: Abi, library: &Library) -> Result<Self, Vec<String>> {
        match abi {
            Abi::Standard => Ok(STANDARD),
            Abi::Mpich => Ok(MPICH),
            Abi::OpenMpi => open_mpi(library),
        }
    }
}

const STANDARD: Constants = Constants {
    world: 0x101,
    comm_null: 0x100,
    request_null: 0x180,
    request_empty: None,
    errors_return: 0x143,
    types: [0x241, 0x249, 0x250, 0x258, 0x210, 0x214, 0x240, 0x251, 0x259],
    operators: [0x21, 0x24, 0x22, 0x23],
    in_place: std::ptr::without_provenance(1),
    status_ignore: std::ptr::null_mut(),
    undefined: -32766,
    threads: [0, 4096],
};

const MPICH: Constants = Constants {
    world: 0x4400_0000,
    comm_null: 0x0400_0000,
    request_null: 0x2c00_0000,
    request_empty: None,
    errors_return: 0x5400_0001,
    types: [
        0x4c00_013b,
        0x4c00_023c,
        0x4c00_0439,
        0x4c00_083a,
        0x4c00_040a,
        0x4c00_080b,
        0x4c00_0137,
        0x4c00_043d,
        0x4c00_083e,
    ],
    operators: [0x5800_0003, 0x5800_0004, 0x5800_0002, 0x5800_0001],
    in_place: std::ptr::without_provenance(usize::MAX),
    status_ignore: std::ptr::without_provenance_mut(1),
    undefined: -32766,
    threads: [0, 3],
};

fn open_mpi(library: &Library) -> Result<Constants, Vec<String>> {
    open_mpi_by(|name| library.symbol(name).map(|symbol| symbol as MpiHandle))
}

/// By the addresses of the library's data.
fn open_mpi_by(find: impl Fn(&CStr) -> Option<MpiHandle>) -> Result<Constants, Vec<String>> {
    let mut missing = Vec::new();
    let known = |name: &str| {
        let terminated = format!("{name}\0");
        CStr::from_bytes_with_nul(terminated.as_bytes()).ok().and_then(&find)
    };
    let mut address = |name: String| {
        known(&name).unwrap_or_else(|| {
            if !OPTIONAL.iter().any(|optional| name.ends_with(&format!("_mpi_{optional}"))) {
                missing.push(name);
            }
            LACKING
        })
    };
    let constants = Constants {
        world: address("ompi_mpi_comm_world".to_owned()),
        comm_null: address("ompi_mpi_comm_null".to_owned()),
        request_null: address("ompi_request_null".to_owned()),
        request_empty: known("ompi_request_empty"),
        errors_return: address("ompi_mpi_errors_return".to_owned()),
        types: TYPES.map(|name| address(format!("ompi_mpi_{name}"))),
        operators: ["sum", "prod", "min", "max"].map(|name| address(format!("ompi_mpi_op_{name}"))),
        in_place: std::ptr::without_provenance(1),
        status_ignore: std::ptr::null_mut(),
        undefined: -32766,
        threads: [0, 3],
    };
    if missing.is_empty() { Ok(constants) } else { Err(missing) }
}

/// Which ABI a library has: by its file's name, then by the data that only Open MPI exports, then by what it says of
/// itself. None: an MPI that nobody has described here.
pub(super) fn detect(file: &str, has_open_mpi_data: bool, says: &str) -> Option<Abi> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let descends = ["MPICH", "Intel(R) MPI", "MVAPICH", "CRAY MPICH"].iter().any(|word| says.contains(word));
    if name.contains("mpi_abi") {
        Some(Abi::Standard)
    } else if has_open_mpi_data {
        Some(Abi::OpenMpi)
    } else if descends {
        Some(Abi::Mpich)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use terms::Named as _;

    use super::*;

    #[test]
    fn abis_are_told_apart() {
        let mpich = "MPICH Version:\t4.0.2";
        assert_eq!(detect("/usr/lib/libmpich.so.12", false, mpich), Some(Abi::Mpich));
        assert_eq!(detect("/opt/lib/libmpi_abi.so.1", false, mpich), Some(Abi::Standard));
        assert_eq!(detect("/usr/lib/libmpi.so.40", true, "Open MPI v4.1.4"), Some(Abi::OpenMpi));
        assert_eq!(detect("/opt/libmpi.so.12", false, "Intel(R) MPI Library 2021.18"), Some(Abi::Mpich));
        // A folder's name says nothing.
        assert_eq!(detect("/opt/mpi_abi/libmpi.so", false, "Somebody's MPI"), None);
    }

    #[test]
    fn handles_of_a_table_differ() {
        for constants in [STANDARD, MPICH] {
            let Constants { world, comm_null, request_null, errors_return, types, operators, .. } = constants;
            let mut all = vec![world, comm_null, request_null, errors_return];
            all.extend(types.into_iter().chain(operators));
            let distinct: std::collections::HashSet<MpiHandle> = all.iter().copied().collect();
            assert_eq!(distinct.len(), all.len(), "{all:x?}");
        }
    }

    #[test]
    fn a_library_may_lack_what_few_programs_use() {
        let without = |lacking: &'static [&'static str]| {
            open_mpi_by(move |name| {
                let name = name.to_str().unwrap();
                (!lacking.contains(&name)).then_some(name.len() as MpiHandle)
            })
        };
        let constants = without(&["ompi_mpi_uint32_t"]).unwrap();
        let lacking: Vec<_> = Dtype::ALL.iter().copied().filter(|dtype| !constants.has(*dtype)).collect();
        assert_eq!(lacking, [Dtype::U32]);
        assert_eq!(without(&["ompi_mpi_uint16_t", "ompi_mpi_int8_t"]).unwrap_err(), ["ompi_mpi_uint16_t"]);
    }

    #[test]
    fn mpich_datatypes_hold_their_size() {
        // The second byte of a built-in datatype of MPICH is its size.
        for dtype in terms::Dtype::ALL {
            assert_eq!((MPICH.datatype(*dtype) >> 8) as u64 & 0xff, dtype.bytes(), "{dtype}");
        }
    }
}
