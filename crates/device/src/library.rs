//! Native libraries, opened at run time: where the loader looks for them, and their symbols. Nothing is ever linked, and
//! nothing is ever closed: a library's threads and exit handlers would outlive its code.
//!
//! Opening a library runs its code. One that is merely found may abort or hang, so that a process that must live on
//! lets a child open it first.

use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Who sees a library's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Only who asks for them.
    Local,
    /// Libraries opened later, too: MPI libraries open parts of themselves that need it.
    Global,
}

/// An open library. Stays open until the process ends, also when this is dropped.
#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    path: PathBuf,
}

// SAFETY: the handle is never closed, and dlsym may be called from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the library of this path, or (without a slash) of this name where the loader finds it. Runs its code.
    ///
    /// # Errors
    /// What the loader says.
    pub fn open(path: &Path, visibility: Visibility) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "its name has a zero byte".to_owned())?;
        let seen = if visibility == Visibility::Global { libc::RTLD_GLOBAL } else { libc::RTLD_LOCAL };
        // All symbols now: one that is missing shall be an error here and not the end of the process later.
        // SAFETY: the name is a terminated string. The library's own code runs, as this function's contract says.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | seen) };
        let handle = NonNull::new(handle).ok_or_else(last_error)?;
        Ok(Self { handle, path: path.to_owned() })
    }

    /// Where a symbol lies: a function's or a variable's address.
    ///
    /// # Errors
    /// With the symbol's name, where the library has none of it.
    pub fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: the handle is open, and the name is a terminated string.
        let found = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        NonNull::new(found).ok_or_else(|| format!("it has no symbol `{}`", name.to_string_lossy()))
    }

    /// The path as it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Declares a table of a library's functions with their forms. `Table::load(library)` resolves all of them, or refuses the library with the
/// names of what it lacks. Functions behind a `?` may be missing: they are an `Option`.
#[macro_export]
macro_rules! functions {
    (
        $(#[$about:meta])* $seen:vis struct $table:ident;
        $($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*
        $(? $maybe:ident = $maybe_name:literal: fn($($maybe_argument:ty),*) $(-> $maybe_result:ty)?;)*
    ) => {
        $(#[$about])*
        $seen struct $table {
            library: $crate::library::Library,
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub(super) $maybe: Option<unsafe extern "C" fn($($maybe_argument),*) $(-> $maybe_result)?>,)*
        }

        impl $table {
            /// Names of the functions that may be missing.
            #[allow(dead_code, reason = "not every table has optional functions")]
            $seen const OPTIONAL: &[&std::ffi::CStr] = &[$($maybe_name),*];

            /// Resolves the table's functions.
            ///
            /// # Errors
            /// With the names of all that the library lacks.
            $seen fn load(library: $crate::library::Library) -> std::result::Result<Self, String> {
                let mut missing: Vec<&str> = Vec::new();
                $(let $field = library.symbol($name);
                if $field.is_err() {
                    missing.push($name.to_str().unwrap_or_default());
                })*
                if !missing.is_empty() {
                    return Err(format!("it has no symbol `{}`", missing.join("`, `")));
                }
                $(let $maybe = library.symbol($maybe_name).ok();)*
                Ok(Self {
                    // SAFETY: the symbol is the function that the library's header declares with this form under this name,
                    // and the library is never closed.
                    $($field: unsafe { std::mem::transmute::<
                        std::ptr::NonNull<std::ffi::c_void>,
                        unsafe extern "C" fn($($argument),*) $(-> $result)?,
                    >($field?) },)*
                    // SAFETY: as above.
                    $($maybe: $maybe.map(|symbol| unsafe { std::mem::transmute::<
                        std::ptr::NonNull<std::ffi::c_void>,
                        unsafe extern "C" fn($($maybe_argument),*) $(-> $maybe_result)?,
                    >(symbol) }),)*
                    library,
                })
            }

            /// Opens a library and resolves the table's functions. Runs the library's code.
            ///
            /// # Errors
            /// What the loader says, or the symbols that lack.
            $seen fn open(path: &std::path::Path) -> std::result::Result<Self, String> {
                Self::load($crate::library::Library::open(path, $crate::library::Visibility::Local)?)
            }

            /// Names of the optional functions that this library does not have.
            #[allow(dead_code, reason = "not every table has optional functions")]
            $seen fn missing(&self) -> Vec<&'static std::ffi::CStr> {
                let all: &[(&'static std::ffi::CStr, bool)] = &[$(($maybe_name, self.$maybe.is_some())),*];
                all.iter().filter(|(_, is_there)| !is_there).map(|(name, _)| *name).collect()
            }

            /// The file that was opened.
            $seen fn path(&self) -> &std::path::Path {
                self.library.path()
            }
        }

        impl std::fmt::Debug for $table {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($table)).field(&self.library.path()).finish()
            }
        }
    };
}

fn last_error() -> String {
    // SAFETY: takes nothing; the text that it gives lives until this thread's next call, and is copied before that.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: a terminated string, as just said.
    unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
}

/// Folders where the loader looks, in its order: LD_LIBRARY_PATH as it was when this process began, the system's own,
/// and those of /etc/ld.so.conf.
pub fn search_path() -> Vec<PathBuf> {
    let mut folders = loader_folders();
    folders.extend(configured(Path::new("/etc/ld.so.conf"), 0));
    let mut seen = Vec::new();
    folders.retain(|folder| {
        let new = folder.is_absolute() && !seen.contains(folder);
        seen.push(folder.clone());
        new
    });
    folders
}

/// Folders of NVIDIA's wheels in the environment of this Python.
pub fn wheels(python: &Path) -> Vec<PathBuf> {
    // The environment is where the link lies, not the program that it leads to.
    let Some(prefix) = python.parent().and_then(Path::parent) else { return Vec::new() };
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Where pip installs for a distribution's own Python: below `local`, and on Debian and Ubuntu in `dist-packages`.
    let mut pythons: Vec<PathBuf> =
        [prefix.join("lib"), prefix.join("local/lib")].into_iter().flat_map(entries).collect();
    pythons.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")));
    let sites = ["site-packages/nvidia", "dist-packages/nvidia"];
    let parts = pythons.iter().flat_map(|python| sites.map(|site| python.join(site)));
    let mut folders: Vec<PathBuf> = parts.flat_map(entries).map(|path| path.join("lib")).collect();
    folders.sort();
    folders
}

/// Libraries in these folders, one path for each, in the order of the folders. A name is one of `stems` ("libmpi"),
/// `.so`, and perhaps a version. Opens nothing.
///
/// A folder's `libx.so.2`, `libx.so.2.1` and `libx.so` are one library, also where they are copies instead of links, or
/// where the last is a text for linkers, as in Python's wheels: the first is the loader's own name for it, and taken.
pub fn find(folders: &[PathBuf], stems: &[&str]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    // One spelling of each folder: where /lib is a link to /usr/lib, both are searched.
    for folder in folders.iter().filter_map(|folder| fs::canonicalize(folder).ok()) {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_key(|name| (name.ends_with(".so"), name.len(), name.clone()));
        let mut taken: Vec<(&str, Option<u32>)> = Vec::new();
        for (name, stem, major) in names.iter().filter_map(|name| {
            let (stem, major) = stems.iter().find_map(|stem| Some((*stem, major_of(name, stem)?)))?;
            Some((name, stem, major))
        }) {
            let path = folder.join(name);
            let Ok(file) = fs::canonicalize(&path) else { continue };
            let another_name = taken.iter().any(|(of, number)| *of == stem && (major.is_none() || *number == major));
            if file.is_file() && !another_name {
                taken.push((stem, major));
                if !files.contains(&file) {
                    files.push(file);
                    found.push(path);
                }
            }
        }
    }
    found
}

/// The first number of the version in `libx.so`, `libx.so.2` or `libx.so.2.1`, for the stem `libx`; None for other names.
fn major_of(name: &str, stem: &str) -> Option<Option<u32>> {
    let version = name.strip_prefix(stem)?.strip_prefix(".so")?;
    if version.is_empty() {
        return Some(None);
    }
    let version = version.strip_prefix('.')?;
    let first = version.split('.').next()?.parse().ok()?;
    version.split('.').all(is_number).then_some(Some(first))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The head of what `dlinfo` writes, after which its entries follow (dlfcn.h).
#[repr(C)]
struct SearchHead {
    size: usize,
    count: c_uint,
}

#[repr(C)]
struct SearchEntry {
    name: *const c_char,
    flags: c_uint,
}

/// What the loader itself says.
fn loader_folders() -> Vec<PathBuf> {
    // SAFETY: no name means this program; it stays open.
    let program = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
    let mut head = SearchHead { size: 0, count: 0 };
    // SAFETY: the request writes one head.
    let refused =
        unsafe { libc::dlinfo(program, libc::RTLD_DI_SERINFOSIZE, std::ptr::from_mut(&mut head).cast()) } != 0;
    if program.is_null() || refused {
        return Vec::new();
    }
    // Words, for their alignment.
    let mut memory = vec![0_u64; head.size.div_ceil(size_of::<u64>()).max(2)];
    let start = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: the memory is as large as the loader asked for, and aligned; it wants its own size and count in it first.
    let refused = unsafe {
        start.cast::<SearchHead>().write(SearchHead { size: head.size, count: head.count });
        libc::dlinfo(program, libc::RTLD_DI_SERINFO, start.cast()) != 0
    };
    if refused {
        return Vec::new();
    }
    let entry = |index: usize| {
        // SAFETY: the loader wrote `count` entries behind the head, and their texts lie in the same memory.
        unsafe {
            let entries = start.add(size_of::<SearchHead>()).cast::<SearchEntry>();
            let name = CStr::from_ptr((*entries.add(index)).name);
            PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()))
        }
    };
    (0..head.count as usize).map(entry).collect()
}

/// Folders that a file of ld.so.conf's form names, those of the files that it includes among them.
fn configured(file: &Path, depth: u32) -> Vec<PathBuf> {
    // A file that includes itself.
    if depth > 4 {
        return Vec::new();
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut folders = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        match line.strip_prefix("include ") {
            Some(patterns) => patterns
                .split_whitespace()
                .flat_map(|pattern| matching(file, pattern))
                .for_each(|included| folders.extend(configured(&included, depth + 1))),
            None if line.starts_with('/') => folders.push(PathBuf::from(line)),
            None => {}
        }
    }
    folders
}

/// Files that match a pattern. Its last part may hold one `*`.
fn matching(file: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = file.parent().unwrap_or(Path::new("/")).join(pattern);
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let (begin, end) = name.split_once('*').unwrap_or((name, ""));
    let fits = |found: &str| match name.contains('*') {
        true => found.len() >= begin.len() + end.len() && found.starts_with(begin) && found.ends_with(end),
        false => found == name,
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(fits)).map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_libraries_are_told_from_their_neighbours() {
        assert_eq!(major_of("libmpi.so", "libmpi"), Some(None));
        assert_eq!(major_of("libmpi.so.40", "libmpi"), Some(Some(40)));
        assert_eq!(major_of("libmpi.so.40.30.4", "libmpi"), Some(Some(40)));
        for name in
            ["libmpi_cxx.so.40", "libmpich.so.12", "libmpi.so.", "libmpi.so.40-gdb.py", "libmpi.a", "libmpi.sox"]
        {
            assert_eq!(major_of(name, "libmpi"), None, "{name}");
        }
    }

    #[test]
    fn the_loader_tells_where_it_looks_and_opens_what_is_found_there() {
        let folders = search_path();
        let found = find(&folders, &["libc"]);
        assert!(found.iter().any(|path| path.ends_with("libc.so.6")), "{folders:?}: {found:?}");
        let library = Library::open(&found[0], Visibility::Local).unwrap();
        assert!(library.symbol(c"getpid").is_ok());
        let missing = library.symbol(c"rankmark_has_no_such_symbol").unwrap_err();
        assert!(missing.contains("rankmark_has_no_such_symbol"), "{missing}");
    }

    #[test]
    fn wheels_are_found_where_pip_installs_them() {
        let prefix = std::env::temp_dir().join(format!("rankmark-wheels-{}", std::process::id()));
        let places = [
            "lib/python3.12/site-packages/nvidia/cublas/lib",
            "lib/python3/dist-packages/nvidia/nccl/lib",
            "local/lib/python3.10/dist-packages/nvidia/cudnn/lib",
        ];
        places.iter().for_each(|place| fs::create_dir_all(prefix.join(place)).unwrap());
        let found = wheels(&prefix.join("bin/python3"));
        fs::remove_dir_all(&prefix).unwrap();
        let mut expected = places.map(|place| prefix.join(place));
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let why = Library::open(Path::new("/nowhere/libnothing.so"), Visibility::Global).unwrap_err();
        assert!(why.contains("cannot open shared object file"), "{why}");
    }

    #[test]
    fn a_file_with_several_names_is_one_library() {
        let folder = std::env::temp_dir().join(format!("rankmark-library-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let folder = fs::canonicalize(folder).unwrap();
        fs::write(folder.join("libx.so.1.2"), "").unwrap();
        for name in ["libx.so", "libx.so.1"] {
            std::os::unix::fs::symlink("libx.so.1.2", folder.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("gone", folder.join("libx.so.9")).unwrap();
        fs::write(folder.join("a.conf"), "# a comment\n/one\nrelative\n/two # more\ninclude a.*\n").unwrap();
        // A wheel has copies where others have links, and a text for linkers; another major version is another library.
        for name in ["liby.so", "liby.so.1", "liby.so.1.2", "liby.so.3", "libz.so"] {
            fs::write(folder.join(name), name).unwrap();
        }
        let found = find(&[folder.clone(), folder.clone()], &["libx", "liby", "libz"]);
        let folders = configured(&folder.join("a.conf"), 4);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ["libx.so.1", "liby.so.1", "liby.so.3", "libz.so"].map(|name| folder.join(name)));
        assert_eq!(folders, [PathBuf::from("/one"), PathBuf::from("/two")]);
    }
}
