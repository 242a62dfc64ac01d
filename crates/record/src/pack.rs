//! A record as one file to send: a gzipped tar archive of the record's own files, the same bytes for the same record.
//!
//! Links are never followed. What is not a file of a record is left out and named.

mod redact;
mod said;
mod unpack;
mod words;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

use crate::explained::EXPLAINED_FILE;
use crate::file::{Access, FileName, Folder, open_inside};
use crate::sealed::PREDICTIONS_FILE;
use crate::store::{
    CASES_FILE, LOCK_FILE, RUN_FILE, SAMPLES_FILE, StoreError, TRACE_FOLDER, read_run_file, reseal, reseal_run,
};

pub use redact::{Names, Redaction, Replaced};
pub use unpack::{beside, is_packed, unpack, unpack_once};
pub use words::words;

/// The folders of a report's pictures and of traces, with the kinds of files in them.
static FOLDERS: [(FileName, &[&str]); 2] =
    [(FileName::literal("charts"), &[".svg", ".png"]), (FileName::literal(TRACE_FOLDER), &[".json.gz"])];
/// Files of a record and of its report; of those that end in a point, any kind.
const OWN: [&str; 7] = [RUN_FILE, CASES_FILE, SAMPLES_FILE, EXPLAINED_FILE, PREDICTIONS_FILE, "report.", "cases."];
/// How a report's tables of [`EXPLAINED_FILE`] begin and end.
const EXPLAINED_TABLES: [&str; 2] = ["profile-", ".csv"];
/// Kinds of files in which names can be found and replaced.
const TEXTS: [&str; 8] = ["json", "jsonl", "md", "csv", "svg", "html", "txt", "yaml"];
/// Most bytes of a file in which names are replaced, unpacked: it is held in memory.
const LARGEST_TEXT: u64 = 4 << 30;

/// What became of a record's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Paths in the archive, in its order.
    pub files: Vec<String>,
    /// Bytes of the archive.
    pub bytes: u64,
    /// What was left out, and why.
    pub left_out: Vec<(String, &'static str)>,
}

/// A file of the record, found and not opened yet.
struct PackedFile {
    /// Below the record's directory.
    relative: String,
    /// Held open: a link that is put in its place later is not followed.
    folder: Arc<Folder>,
    name: FileName,
}

impl PackedFile {
    fn open(&self) -> io::Result<File> {
        self.folder.open(&self.name, Access::Read)
    }
}

/// Writes the archive of a record to a new file.
///
/// # Errors
/// When there is no record, a file of it cannot be read, the archive is there already or cannot be written, or a name
/// cannot be replaced. Nothing is left behind then.
pub fn pack(directory: &Path, to: &Path, mut redaction: Option<&mut Redaction>) -> Result<Packed, StoreError> {
    let run = bytes_of(open_inside(directory, &FileName::literal(RUN_FILE)), directory)?;
    let started = read_run_file(&run, &directory.join(RUN_FILE).display().to_string())?.started;
    let seconds = started.parse::<jiff::Timestamp>().map_or(0, |time| time.as_second().max(0) as u64);
    let mut packed = Packed::default();
    let members = members(directory, &mut packed.left_out).map_err(|error| reading(directory, &error))?;
    if let Some(redaction) = redaction.as_deref_mut() {
        for member in members.iter().filter(|member| is_text(member.name.as_str())) {
            redaction.look(&text_of(member, directory)?);
        }
        redaction.make_rules().map_err(|host| {
            StoreError::new(format!("the host name `{host}` is also a word of records"))
                .cause("replacing it would change what the record says")
                .hint("pack without --redact, and check what you send")
        })?;
    }
    let failed = |error: io::Error| StoreError::io("cannot write", to, &error);
    let file = OpenOptions::new().write(true).create_new(true).open(to).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            StoreError::new(format!("{} exists already", to.display())).hint("`-o FILE` names another")
        }
        _ => failed(error),
    })?;
    let mut archive = tar::Builder::new(GzBuilder::new().write(io::BufWriter::new(file), Compression::default()));
    let written = write(directory, &members, &mut archive, seconds, redaction, &mut packed).and_then(|()| {
        let file = archive.into_inner().and_then(|gzip| gzip.finish()).map_err(failed)?;
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        packed.bytes = file.sync_all().and_then(|()| file.metadata()).map_err(failed)?.len();
        Ok(())
    });
    written.inspect_err(|_| drop(std::fs::remove_file(to)))?;
    Ok(packed)
}

fn write(
    directory: &Path,
    members: &[PackedFile],
    archive: &mut tar::Builder<impl Write>,
    seconds: u64,
    mut redaction: Option<&mut Redaction>,
    packed: &mut Packed,
) -> Result<(), StoreError> {
    let own = std::fs::canonicalize(directory).ok();
    let own = own.as_deref().and_then(Path::file_name).map_or("record".into(), |name| name.to_string_lossy());
    let top = match redaction.as_deref_mut() {
        Some(redaction) => redaction.replace(&own),
        None => own.into_owned(),
    };
    for member in members {
        let path = format!("{top}/{}", member.relative);
        let put = |archive: &mut tar::Builder<_>, length: u64, from: &mut dyn Read| {
            let mut header = tar::Header::new_gnu();
            header.set_size(length);
            header.set_mode(0o644);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(seconds);
            archive
                .append_data(&mut header, &path, from)
                .map_err(|error| StoreError::io("cannot pack", Path::new(&path), &error))
        };
        let Some(redaction) = redaction.as_deref_mut() else {
            let file = member.open().map_err(|error| reading(&directory.join(&member.relative), &error))?;
            let length = file.metadata().map_err(|error| reading(directory, &error))?.len();
            // A run that goes on appends to it.
            put(archive, length, &mut file.take(length))?;
            packed.files.push(path);
            continue;
        };
        if !is_text(member.name.as_str()) {
            packed.left_out.push((member.relative.clone(), "not a text: names in it could not be replaced"));
            continue;
        }
        if member.name.as_str() == PREDICTIONS_FILE {
            packed.left_out.push((member.relative.clone(), "sealed: with other names it would not match its digest"));
            continue;
        }
        let text = redacted(member, text_of(member, directory)?, redaction)?;
        put(archive, text.len() as u64, &mut text.as_slice())?;
        packed.files.push(path);
    }
    Ok(())
}

/// A file's bytes with all names replaced, as the archive gets them.
fn redacted(member: &PackedFile, text: Vec<u8>, redaction: &mut Redaction) -> Result<Vec<u8>, StoreError> {
    let name = member.name.as_str();
    if name.ends_with(".jsonl") {
        return Ok(text.split_inclusive(|byte| *byte == b'\n').flat_map(|line| line_of(line, redaction)).collect());
    }
    let text = match name {
        RUN_FILE => reseal_run(&text, |text| redaction.clean(name, text)),
        _ => redaction.clean(name, &text),
    };
    if name == RUN_FILE {
        read_run_file(&text, RUN_FILE)?;
    }
    if !name.ends_with(".gz") {
        return Ok(text);
    }
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    let zipped = gzip.write_all(&text).and_then(|()| gzip.finish());
    zipped.map_err(|error| reading(Path::new(&member.relative), &error))
}

/// A line of a record. One that is damaged stays so: its checksum is not made right.
fn line_of(line: &[u8], redaction: &mut Redaction) -> Vec<u8> {
    let (body, end) = match line.strip_suffix(b"\n") {
        Some(body) => (body, &b"\n"[..]),
        None => (line, &b""[..]),
    };
    let mut text = reseal(body, |body| redaction.clean(CASES_FILE, body));
    text.extend_from_slice(end);
    text
}

/// The files of a record: the run file, by which a packed record is known, and the others in the order of their paths.
fn members(directory: &Path, left_out: &mut Vec<(String, &'static str)>) -> io::Result<Vec<PackedFile>> {
    let directory = Arc::new(Folder::named(directory)?);
    let mut members = Vec::new();
    for (name, found) in directory.entries()? {
        if name == LOCK_FILE {
            continue;
        }
        let inner = FOLDERS.iter().find(|(folder, _)| found.is_dir() && folder.as_str() == name);
        let own = FileName::checked(&name).filter(|_| found.is_file() && is_own(&name));
        match (own, inner) {
            (Some(own), _) => members.push(PackedFile { relative: name, folder: Arc::clone(&directory), name: own }),
            (None, Some((folder, kinds))) => inside(folder, kinds, &directory, &mut members, left_out)?,
            (None, None) => left_out.push((name, not_packed(&found))),
        }
    }
    members.sort_by_key(|member| member.relative != RUN_FILE);
    Ok(members)
}

/// Whether a file of this name, in the record's directory itself, is one of the record or of its report.
fn is_own(name: &str) -> bool {
    let [begin, end] = EXPLAINED_TABLES;
    let is_table = name.starts_with(begin) && name.ends_with(end);
    is_table || OWN.iter().any(|own| name == *own || own.ends_with('.') && name.starts_with(own))
}

fn inside(
    folder: &FileName,
    kinds: &[&str],
    directory: &Folder,
    members: &mut Vec<PackedFile>,
    left_out: &mut Vec<(String, &'static str)>,
) -> io::Result<()> {
    let held = Arc::new(directory.folder(folder)?);
    for (name, found) in held.entries()? {
        let relative = format!("{folder}/{name}");
        let is_own = found.is_file() && kinds.iter().any(|kind| name.ends_with(kind));
        match FileName::checked(&name).filter(|_| is_own) {
            Some(name) => members.push(PackedFile { relative, folder: Arc::clone(&held), name }),
            None => left_out.push((relative, not_packed(&found))),
        }
    }
    Ok(())
}

fn not_packed(found: &Metadata) -> &'static str {
    if found.file_type().is_symlink() { "a symbolic link" } else { "not a file of a record" }
}

fn is_text(name: &str) -> bool {
    let kind = name.strip_suffix(".gz").unwrap_or(name).rsplit('.').next().unwrap_or_default();
    TEXTS.contains(&kind)
}

/// A text, unpacked where it is gzipped.
fn text_of(member: &PackedFile, directory: &Path) -> Result<Vec<u8>, StoreError> {
    let path = directory.join(&member.relative);
    let bytes = bytes_of(member.open(), &path)?;
    if !member.name.as_str().ends_with(".gz") {
        return Ok(bytes);
    }
    bounded(MultiGzDecoder::new(bytes.as_slice()), &path)
}

fn bytes_of(file: io::Result<File>, path: &Path) -> Result<Vec<u8>, StoreError> {
    bounded(file.map_err(|error| reading(path, &error))?, path)
}

fn bounded(from: impl Read, path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    from.take(LARGEST_TEXT + 1).read_to_end(&mut bytes).map_err(|error| reading(path, &error))?;
    if bytes.len() as u64 > LARGEST_TEXT {
        return Err(StoreError::new(format!("{} is larger than {} GiB", path.display(), LARGEST_TEXT >> 30)));
    }
    Ok(bytes)
}

fn reading(path: &Path, error: &io::Error) -> StoreError {
    StoreError::io("cannot read", path, error)
}
