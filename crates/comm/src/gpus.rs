//! Which GPU a rank takes, and whether it has it for itself; its memory, and what the driver says, as errors of a communicator.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use device::cuda::{self, CudaError, Driver, Gpu, Uuid};
use device::{Region, library};
use terms::Bytes;

use crate::{Bootstrap, Devices, Error, RankPlacement, Result};

/// What this process knows of its surroundings, of which libraries read nothing themselves.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Folders with libraries out of the loader's sight: CUDA's, and those of Python's wheels.
    pub folders: Vec<PathBuf>,
    /// Folders of programs.
    pub path: Vec<PathBuf>,
    /// Whether several ranks may share a GPU (NCCL_MULTI_RANK_GPU_ENABLE).
    pub shares_gpus: bool,
    /// Where kernels that were compiled for a GPU are kept.
    pub kernels: Option<PathBuf>,
}

static LOOK: OnceLock<fn() -> Surroundings> = OnceLock::new();

/// Says who looks at the surroundings, once they are needed. The first call counts.
pub fn surrounded_by(look: fn() -> Surroundings) {
    // A second one changes nothing, as promised.
    let _ = LOOK.set(look);
}

fn surroundings() -> &'static Surroundings {
    static SURROUNDINGS: OnceLock<Surroundings> = OnceLock::new();
    SURROUNDINGS.get_or_init(|| LOOK.get().map_or_else(Surroundings::default, |look| look()))
}

/// The program of this name.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    surroundings().path.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Folders that libraries are looked for in: where the loader looks first.
pub(crate) fn folders() -> Vec<PathBuf> {
    let mut folders = library::search_path();
    folders.extend(surroundings().folders.iter().cloned());
    folders
}

/// Libraries of these names that are there, the first that counts first. Opens none.
pub fn libraries(stems: &[&str]) -> Vec<PathBuf> {
    library::find(&folders(), stems)
}

/// The library of this name, as [`library_of`] has it, or the first that is there.
pub fn chosen_library(given: Option<&str>, stems: &[&str]) -> Option<PathBuf> {
    match given {
        Some(name) => library_of(name, stems),
        None => libraries(stems).into_iter().next(),
    }
}

/// The library that a name means: a file, or that of NVIDIA's wheels in the Python of this name. None where these have none.
pub fn library_of(name: &str, stems: &[&str]) -> Option<PathBuf> {
    let path = PathBuf::from(name);
    let is_python = path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("python"));
    if !is_python {
        return Some(path);
    }
    let python = if name.contains('/') { Some(path) } else { program(name) };
    library::find(&library::wheels(&python?), stems).into_iter().next()
}

/// The driver's libraries that are there, the first that counts first.
pub(crate) fn drivers() -> Vec<PathBuf> {
    library::find(&folders(), cuda::STEMS)
}

/// What a rank says of its GPU to the others.
struct Card {
    host: String,
    /// Why it has none.
    gpu: std::result::Result<Uuid, String>,
}

impl Card {
    fn to_bytes(&self) -> Vec<u8> {
        let (kind, rest) = match &self.gpu {
            Ok(uuid) => (b'g', [&uuid.0[..], self.host.as_bytes()].concat()),
            Err(why) => (b'n', format!("{}\n{why}", self.host).into_bytes()),
        };
        [&[kind][..], &rest].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match kind {
            b'g' => {
                let (uuid, host) = rest.split_first_chunk::<16>()?;
                Some(Self { host: text(host), gpu: Ok(Uuid(*uuid)) })
            }
            b'n' => {
                let all = text(rest);
                let (host, why) = all.split_once('\n')?;
                Some(Self { host: host.to_owned(), gpu: Err(why.to_owned()) })
            }
            _ => None,
        }
    }
}

/// A rank's GPU.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) devices: Devices,
}

/// Opens this rank's GPU, and then what else the backend needs. Collective: where a rank lacks something or two share a GPU, all
/// ranks get the same words.
///
/// # Errors
/// [`Error::Unsupported`] with what is missing, and on which rank.
pub(crate) fn open<T>(
    bootstrap: &mut dyn Bootstrap,
    backend: &'static str,
    needs: impl FnOnce() -> std::result::Result<T, String>,
) -> Result<(Opened, T)> {
    let place = bootstrap.place();
    let own = own(&place).and_then(|gpu| Ok((gpu, needs()?)));
    let gpu = own.as_ref().map(|(gpu, _)| gpu.uuid()).map_err(Clone::clone);
    let card = Card { host: place.host.clone(), gpu };
    let gathered = bootstrap.all_gather(&card.to_bytes())?;
    let cards = gathered.iter().enumerate().map(|(rank, bytes)| {
        let another = || Error::Mismatch(format!("rank {rank} runs another version of this program"));
        Card::from_bytes(bytes).ok_or_else(another)
    });
    let cards: Vec<Card> = cards.collect::<Result<_>>()?;
    let shared = shared(&cards);
    let refused = shared.clone().filter(|_| !surroundings().shares_gpus);
    if let Some(what) = lacking(&cards).or(refused) {
        return Err(Error::Unsupported { backend, what });
    }
    let (gpu, needed) = own.map_err(|what| Error::Unsupported { backend, what })?;
    let devices = Devices { emulated: gpu.is_emulated(), shared: shared.is_some() };
    Ok((Opened { gpu, devices }, needed))
}

/// An error of the driver as one of a communicator.
pub(crate) fn refused(backend: &'static str, error: CudaError) -> Error {
    let what = format!("use a GPU: {error}");
    match error {
        error if error.is_without_device() => Error::Unsupported { backend, what },
        error => Error::Library { what: error.what.to_owned(), said: format!("{} ({})", error.name, error.said) },
    }
}

/// A buffer of the GPU, zeroed.
///
/// # Errors
/// [`Error::OutOfMemory`] with what is there; what the driver says.
pub(crate) fn buffer(backend: &'static str, gpu: &Arc<Gpu>, bytes: usize) -> Result<Arc<Region>> {
    room_for(backend, gpu, bytes)?;
    Region::cuda(gpu, bytes).map_err(|error| refused(backend, error))
}

/// Refuses more than the device has: what a library says of it differs from one to the next.
pub(crate) fn room_for(backend: &'static str, gpu: &Gpu, bytes: usize) -> Result<()> {
    let available = gpu.free_bytes().map_err(|error| refused(backend, error))?;
    let (wanted, available) = (Bytes(bytes as u64), Bytes(available));
    if wanted.0 <= available.0 {
        return Ok(());
    }
    Err(Error::OutOfMemory { what: format!("a buffer on {}", gpu.name()), wanted, available })
}

/// What another rank lacks, where all allocate and only this one could.
pub(crate) fn lacking_elsewhere(bytes: usize) -> Error {
    let what = "a buffer on the GPU of another rank".to_owned();
    Error::OutOfMemory { what, wanted: Bytes(bytes as u64), available: Bytes(0) }
}

/// What is missing on some rank.
fn lacking(cards: &[Card]) -> Option<String> {
    let whys: Vec<(usize, &String)> =
        cards.iter().enumerate().filter_map(|(rank, card)| Some((rank, card.gpu.as_ref().err()?))).collect();
    let (rank, why) = whys.first()?;
    let others = match whys.len() {
        1 => String::new(),
        all => format!(" (and {} more)", all - 1),
    };
    Some(format!("use a GPU on rank {rank}, host {}{others}: {why}", cards[*rank].host))
}

/// Two ranks with one GPU.
fn shared(cards: &[Card]) -> Option<String> {
    let of = |card: &Card| card.gpu.clone().ok().map(|uuid| (card.host.clone(), uuid));
    let found = cards.iter().enumerate().find_map(|(rank, card)| {
        let before = cards[..rank].iter().position(|other| of(other) == of(card))?;
        Some((before, rank, card))
    });
    let (first, second, card) = found?;
    let uuid = card.gpu.clone().ok()?;
    Some(format!(
        "give ranks {first} and {second} one GPU (host {}, GPU-{uuid}): use as many ranks as GPUs, or \
         `--env NCCL_MULTI_RANK_GPU_ENABLE=1` (`nccl`: 2.30 or later)",
        card.host
    ))
}

/// This rank's GPU.
fn own(place: &RankPlacement) -> std::result::Result<Arc<Gpu>, String> {
    let driver = drivers().into_iter().next().ok_or("no libcuda.so where the loader looks")?;
    let opened = Driver::open(&driver).map_err(|why| format!("{}: {why}", driver.display()))?;
    let devices = opened.devices().map_err(|error| error.to_string())?;
    let number = gpu_number(place, devices, surroundings().shares_gpus)?;
    let gpu = Gpu::open(opened, number).map_err(|error| format!("GPU {number}: {error}"))?;
    if let Some(folder) = &surroundings().kernels {
        gpu.keep_kernels_in(folder);
    }
    Ok(gpu)
}

/// The number of the rank's GPU among those that its process sees. A launcher that shows each rank one has chosen already.
fn gpu_number(place: &RankPlacement, devices: u32, shares: bool) -> std::result::Result<u32, String> {
    match devices {
        0 => Err("the driver shows no GPU (CUDA_VISIBLE_DEVICES may hide all)".to_owned()),
        1 => Ok(0),
        _ if place.index < devices => Ok(place.index),
        _ if shares => Ok(place.index % devices),
        _ => Err(format!("{} ranks are on this host, which shows {devices} GPUs", place.here)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: u32, here: u32) -> RankPlacement {
        RankPlacement { rank: index, size: here, host: "a".to_owned(), index, here }
    }

    #[test]
    fn each_rank_of_a_host_takes_the_gpu_of_its_index() {
        assert_eq!(gpu_number(&place(3, 8), 8, false), Ok(3));
        assert_eq!(gpu_number(&place(3, 8), 1, false), Ok(0), "its launcher shows it one");
        assert_eq!(gpu_number(&place(8, 9), 8, true), Ok(0));
        assert_eq!(gpu_number(&place(8, 9), 8, false), Err("9 ranks are on this host, which shows 8 GPUs".to_owned()));
        assert!(gpu_number(&place(0, 1), 0, false).unwrap_err().contains("CUDA_VISIBLE_DEVICES"));
    }

    fn card(host: &str, gpu: std::result::Result<u8, &str>) -> Card {
        let gpu = gpu.map(|byte| Uuid([byte; 16])).map_err(str::to_owned);
        let card = Card { host: host.to_owned(), gpu };
        Card::from_bytes(&card.to_bytes()).unwrap()
    }

    #[test]
    fn who_shares_a_gpu_is_named_and_equal_gpus_of_two_hosts_are_not_shared() {
        let cards = [card("a", Ok(1)), card("a", Ok(2)), card("b", Ok(1)), card("a", Ok(2))];
        let words = shared(&cards).unwrap();
        assert!(
            words.starts_with("give ranks 1 and 3 one GPU (host a, GPU-02020202-0202-0202-0202-020202020202)"),
            "{words}"
        );
        assert_eq!(shared(&cards[..3]), None);
    }

    #[test]
    fn what_lacks_is_said_once_with_its_rank() {
        let cards = [card("a", Ok(1)), card("b", Err("no libcuda.so")), card("b", Err("no libcuda.so"))];
        let words = "use a GPU on rank 1, host b (and 1 more): no libcuda.so";
        assert_eq!(lacking(&cards).as_deref(), Some(words));
        assert_eq!(lacking(&cards[..1]), None);
    }
}
