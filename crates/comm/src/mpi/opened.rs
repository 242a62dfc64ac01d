//! An MPI library that is open: which one, its functions, its constants. Nothing is initialised yet.

use std::ffi::CStr;

use super::abi::{self, Abi, Constants};
use super::functions::Functions;
use super::library::Library;

/// The vendor of a library. It decides which `mpirun` starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Open MPI.
    OpenMpi,
    /// MPICH.
    Mpich,
    /// Intel MPI.
    Intel,
    /// MVAPICH.
    Mvapich,
}

impl Vendor {
    /// Every vendor.
    pub const ALL: [Self; 4] = [Self::OpenMpi, Self::Mpich, Self::Intel, Self::Mvapich];

    /// "Open MPI".
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Intel => "Intel MPI",
            Self::Mvapich => "MVAPICH",
        }
    }

    /// The vendor of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|vendor| vendor.name() == name)
    }
}

/// What there is to know of a library without initialising it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The vendor of the library.
    pub vendor: Vendor,
    /// Version of the library: "4.1.4".
    pub number: String,
    /// Binary interface of the library, in words.
    pub abi: String,
    /// The file, without symbolic links.
    pub path: String,
}

impl Facts {
    /// "Open MPI 4.1.4".
    pub fn version(&self) -> String {
        format!("{} {}", self.vendor.name(), self.number)
    }
}

/// Names by which the loader may find an MPI library, in the order in which they are tried where none is named.
pub const NAMES: [&str; 5] = ["libmpi.so.40", "libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.1", "libmpi.so"];

/// An open library.
pub(super) struct Opened {
    pub(super) facts: Facts,
    pub(super) functions: Functions,
    pub(super) constants: Constants,
    pub(super) library: Library,
}

impl Opened {
    /// Opens a library by name or path, and resolves its table whole.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn open(name: &str) -> Result<Self, String> {
        let library = Library::open(name)?;
        let lacks = |what: String| format!("{name} lacks {what}");
        let functions = Functions::resolve(&library).map_err(|missing| lacks(some_of(&missing)))?;
        let address = library.symbol(c"MPI_Init_thread").ok_or_else(|| lacks("MPI_Init_thread".to_owned()))?;
        let path = Library::file_of(address).ok_or_else(|| format!("the loader does not say where {name} is"))?;
        let says = functions.library_version();
        let has_data = library.symbol(OPEN_MPI_DATA).is_some();
        let unknown = || format!("{path} calls itself `{}`; its binary interface is not known", first_line(&says));
        let abi: Abi = abi::detect(&path, has_data, &says).ok_or_else(unknown)?;
        let (vendor, number) = identify(&says).ok_or_else(unknown)?;
        let constants = Constants::load(abi, &library).map_err(|missing| lacks(some_of(&missing)))?;
        let facts = Facts { vendor, number, abi: abi.name().to_owned(), path };
        Ok(Self { facts, functions, constants, library })
    }
}

const OPEN_MPI_DATA: &CStr = c"ompi_mpi_comm_world";

/// The first few names, and how many more.
fn some_of<T: AsRef<str>>(missing: &[T]) -> String {
    let names: Vec<&str> = missing.iter().take(3).map(AsRef::as_ref).collect();
    let more = missing.len() - names.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", names.join(", "))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

/// Vendor and number from what a library says of itself.
pub(super) fn identify(says: &str) -> Option<(Vendor, String)> {
    let line = first_line(says);
    let vendor = [
        ("Open MPI", Vendor::OpenMpi),
        ("Intel(R) MPI", Vendor::Intel),
        ("MVAPICH", Vendor::Mvapich),
        ("MPICH", Vendor::Mpich),
    ];
    let (_, vendor) = vendor.into_iter().find(|(word, _)| line.contains(word))?;
    Some((vendor, version_number(line)?))
}

/// The first word that is a version: digits and at least one point, after an optional `v`.
pub fn version_number(text: &str) -> Option<String> {
    let word = |word: &str| {
        let word = word.trim_start_matches('v').trim_end_matches([',', ';', ')']);
        let digit = word.starts_with(|first: char| first.is_ascii_digit());
        (digit && word.contains('.')).then(|| word.to_owned())
    };
    text.split_whitespace().find_map(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_recognised_by_what_they_say() {
        let is = |says: &str, vendor: Vendor, number: &str| {
            assert_eq!(identify(says), Some((vendor, number.to_owned())), "{says}");
        };
        is("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4", Vendor::OpenMpi, "4.1.4");
        is("MPICH Version:\t4.0.2\nMPICH Release date:\tThu", Vendor::Mpich, "4.0.2");
        is("Intel(R) MPI Library 2021.18 for Linux* OS\n", Vendor::Intel, "2021.18");
        is("MVAPICH Version :\t3.0", Vendor::Mvapich, "3.0");
        assert_eq!(identify("Somebody's MPI 1.0"), None);
        assert_eq!(identify("Open MPI, of some day"), None);
    }

    #[test]
    fn a_library_that_is_no_mpi_is_refused_by_name() {
        let why = Opened::open("libc.so.6").err().expect("it is not MPI");
        assert!(why.starts_with("libc.so.6 lacks MPI_Get_library_version, MPI_Init_thread"), "{why}");
        assert!(why.ends_with(" more"), "{why}");
    }

    #[test]
    fn vendors_are_found_by_name() {
        for vendor in Vendor::ALL {
            assert_eq!(Vendor::of_name(vendor.name()), Some(vendor));
        }
    }
}
