//! Joining, allocating, splitting: everything collective that is not an operation.

use std::os::fd::AsFd;
use std::sync::Arc;

use device::{Arena, Region, SharedMapping, available_memory};
use terms::{Bytes, Space};

use super::area::{Area, Order};
use super::cross::Cross;
use super::flag::Looks;
use super::group::{GroupParts, RankEnd};
use super::near;
use super::parts::AllParts as Layout;
use super::regions::{Key, Registry, Views, region};
use super::rendezvous::{Invitation, Star, Token, connect, token};
use crate::{Abort, Bootstrap, Capabilities, Error, Options, Progress, Result, Shape};

/// Changes with every change of what lies in shared memory.
const LAYOUT: u32 = 6;
/// More ranks than the signature of a call has bits for.
const MOST_RANKS: u32 = 1 << 10;

/// What ranks tell each other while a group opens: its memory is there; peers' private memory can be reached.
const MAPPED: u8 = 1;
const REACHED: u8 = 2;

/// Ranks on a core up to which whole control areas have huge pages. Filling those of more with zeros takes longer than all
/// else that starts them (256 ranks: 1.5 GiB). Then only what most calls touch has pages from the start, huge ones that ranks share.
const CROWD: usize = 8;

/// What each rank tells all others through the bootstrap. Plain bytes: `LAYOUT`, then the fields in order.
struct Card {
    token: Token,
    name: Token,
    boot: [u8; 36],
    process: i32,
    /// The core that it is bound to; -1 where it may run on several.
    core: i32,
    /// Whether its processor's pauses are short enough to look apart: 1 or 0.
    apart: u8,
    /// Whether its private memory may have huge pages: 1 or 0.
    huge: u8,
    /// The names of processes: equal where process numbers mean the same. Zero: not known.
    names: u64,
    /// Where `token` lies in the rank's memory: what the probe of cross-memory access reads.
    secret: u64,
}

const CARD: usize = 4 + 16 + 16 + 36 + 4 + 4 + 1 + 1 + 8 + 8;

impl Card {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = LAYOUT.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.token);
        bytes.extend_from_slice(&self.name);
        bytes.extend_from_slice(&self.boot);
        bytes.extend_from_slice(&self.process.to_le_bytes());
        bytes.extend_from_slice(&self.core.to_le_bytes());
        bytes.extend([self.apart, self.huge]);
        bytes.extend_from_slice(&self.names.to_le_bytes());
        bytes.extend_from_slice(&self.secret.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (layout, rest) = bytes.split_first_chunk::<4>()?;
        if bytes.len() != CARD || *layout != LAYOUT.to_le_bytes() {
            return None;
        }
        let (token, rest) = rest.split_first_chunk()?;
        let (name, rest) = rest.split_first_chunk()?;
        let (boot, rest) = rest.split_first_chunk()?;
        let (process, rest) = rest.split_first_chunk()?;
        let (core, rest) = rest.split_first_chunk()?;
        let ([apart, huge], rest) = rest.split_first_chunk()?;
        let (names, rest) = rest.split_first_chunk()?;
        let secret = u64::from_le_bytes(rest.try_into().ok()?);
        Some(Self {
            token: *token,
            name: *name,
            boot: *boot,
            process: i32::from_le_bytes(*process),
            core: i32::from_le_bytes(*core),
            apart: *apart,
            huge: *huge,
            names: u64::from_le_bytes(*names),
            secret,
        })
    }
}

/// Names the running kernel: ranks of equal ones share memory.
fn boot_id() -> [u8; 36] {
    let text = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut id = [0; 36];
    let len = text.len().min(id.len());
    id[..len].copy_from_slice(&text[..len]);
    id
}

/// Names the table of process numbers that this process sees.
fn process_names() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |names| names.ino())
}

/// Opens the communicator of the whole world. Collective.
pub fn world(bootstrap: &mut dyn Bootstrap, options: &Options, abort: &Abort) -> Result<RankEnd> {
    let place = bootstrap.place();
    if place.size > MOST_RANKS {
        let what = format!("join {} ranks (at most {MOST_RANKS})", place.size);
        return Err(Error::Unsupported { backend: "shm", what });
    }
    let secret = Box::new(token()?);
    let invitation = if place.rank == 0 { Some(Invitation::new()?) } else { None };
    let card = Card {
        token: *secret,
        name: invitation.as_ref().map_or([0; 16], |invitation| invitation.name),
        boot: boot_id(),
        process: std::process::id() as i32,
        core: core(options).map_or(-1, |core| core as i32),
        // On shared cores looks last as long as switching takes (see `SpinPolicy`), whatever a pause does.
        apart: u8::from(!options.oversubscribed && Looks::of_this_processor() == Looks::Apart),
        huge: u8::from(device::private_huge_pages()),
        names: process_names(),
        secret: (&raw const *secret) as u64,
    };
    let cards = cards(&bootstrap.all_gather(&card.to_bytes())?)?;
    allow_tracing();
    let tokens: Vec<Token> = cards.iter().map(|card| card.token).collect();
    let star = join(invitation, place.rank, &tokens, &cards[0].name, abort)?;
    let huge = cards.iter().all(|card| card.huge == 1);
    let cross = Cross::new(cards.iter().map(|card| card.process).collect(), huge);
    let secrets: Vec<(u64, Token)> = cards.iter().map(|card| (card.secret, card.token)).collect();
    let same_names = cards.iter().all(|card| card.names != 0 && card.names == cards[0].names);
    let reached = if cross.works(place.rank as usize, &secrets, same_names) { REACHED } else { 0 };
    let crowd = cards.iter().filter(|other| other.core == card.core).count();
    let order =
        Order::for_size(place.size as usize, options.oversubscribed && is_crowded(cards.iter().map(|card| card.core)));
    let (areas, all) = areas(&star, (place.rank, place.size), order, reached, abort)?;
    // All have tried: until then everybody's secret must stay where it is.
    drop(secret);
    let mut group = RankEnd::new(GroupParts {
        shape: shape(place.rank, place.size),
        members: (0..place.size).collect(),
        areas,
        registry: Arc::default(),
        star,
        abort: abort.clone(),
        oversubscribed: options.oversubscribed,
        // All look alike: a rank that was interrupted while it looked at its pauses would be a slow one from then on.
        looks: if cards.iter().all(|card| card.apart == 1) { Looks::Apart } else { Looks::Tight },
        crowd,
        cores: cards.iter().map(|card| u32::try_from(card.core).ok()).collect(),
        cross: (all & REACHED != 0).then_some(cross),
    });
    group.endpoint.near = near::find(&mut group.endpoint)?;
    Ok(group)
}

/// The one core that operations of this rank run on, if it is one.
fn core(options: &Options) -> Option<u32> {
    if options.progress_thread && options.progress_core.is_some() {
        return options.progress_core;
    }
    // SAFETY: all zeros is an empty set, and the call fills it within its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &mut set) != 0 || libc::CPU_COUNT(&set) != 1 {
            return None;
        }
        (0..libc::CPU_SETSIZE as u32).find(|core| libc::CPU_ISSET(*core as usize, &set))
    }
}

fn cards(gathered: &[Vec<u8>]) -> Result<Vec<Card>> {
    let card = |(rank, bytes): (usize, &Vec<u8>)| {
        let another = || Error::Mismatch(format!("rank {rank} runs another version of this program"));
        Card::from_bytes(bytes).ok_or_else(another)
    };
    let cards: Vec<Card> = gathered.iter().enumerate().map(card).collect::<Result<_>>()?;
    match cards.iter().position(|card| card.boot != cards[0].boot) {
        None => Ok(cards),
        Some(rank) => {
            let what = format!("join ranks of several hosts (ranks 0 and {rank} share no memory)");
            Err(Error::Unsupported { backend: "shm", what })
        }
    }
}

/// Lets peers read this process's memory where the Yama security module would forbid it. Elsewhere the call fails, and
/// changes nothing.
fn allow_tracing() {
    // SAFETY: plain integers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

fn join(invitation: Option<Invitation>, rank: u32, tokens: &[Token], name: &Token, abort: &Abort) -> Result<Star> {
    match invitation {
        Some(invitation) => invitation.accept(tokens, abort),
        None => connect(name, rank, &tokens[rank as usize], &tokens[0], abort),
    }
}

fn shape(rank: u32, size: u32) -> Shape {
    Shape { rank, size, capabilities: Capabilities { progress: Progress::Caller, peer_view: true } }
}

/// Whether more than [`CROWD`] ranks of a group are bound to one core, or are not bound: all ranks must find the same.
fn is_crowded<T: Ord>(cores: impl Iterator<Item = T>) -> bool {
    let mut ranks = std::collections::BTreeMap::new();
    cores.for_each(|core| *ranks.entry(core).or_insert(0) += 1);
    ranks.values().any(|ranks| *ranks > CROWD)
}

/// Makes and maps everybody's control areas. Returns them, and which of the `flags` all ranks have set.
fn areas(star: &Star, (rank, size): (u32, u32), order: Order, flags: u8, abort: &Abort) -> Result<(Vec<Area>, u8)> {
    let members: Vec<u32> = (0..size).collect();
    let what = "control areas";
    let layout = Layout::of_areas(&members, order).ok_or_else(|| out_of_memory(what, u64::MAX))?;
    let mapped = share(star, rank as usize, &layout, what, abort)?;
    let all = star.agree(flags | if mapped.is_ok() { MAPPED } else { 0 }, abort)?;
    let mapping = mapped?;
    if all & MAPPED == 0 {
        return Err(out_of_memory(what, layout.bytes()));
    }
    let area = |(rank, part): (usize, &super::parts::RankPart)| {
        let small = || Error::Mismatch("rank 0 gave too little memory for control areas".to_owned());
        Area::new(mapping.clone(), (rank * order.head, part.begin), size as usize, order).ok_or_else(small)
    };
    Ok((layout.parts.iter().enumerate().map(area).collect::<Result<_>>()?, all))
}

/// Rank 0 makes one file for all and passes it on; every rank maps it and gives pages to its own part. Nobody may touch
/// another's part before all have agreed that they have theirs. Collective: peers are lost in the outer error, and memory
/// is lacking in the inner one.
fn share(star: &Star, rank: usize, layout: &Layout, what: &str, abort: &Abort) -> Result<Result<Arc<SharedMapping>>> {
    let failed = |source: std::io::Error| match source.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOSPC) => out_of_memory(what, layout.bytes()),
        _ => Error::System { what: format!("allocate {what}"), source },
    };
    let fits = || layout.fits(available_memory()).then_some(()).ok_or(libc::ENOMEM);
    let reserve = |()| Arena::reserve(layout.len);
    let own = (rank == 0).then(|| fits().map_err(std::io::Error::from_raw_os_error).and_then(reserve));
    let passed = star.pass(own.as_ref().and_then(|own| own.as_ref().ok()).map(Arena::file), abort)?;
    let provide = |file: std::os::fd::BorrowedFd<'_>| {
        let mapping = SharedMapping::from_file(file)?;
        for pages in layout.provided_by(rank) {
            mapping.provide(file, pages.range, pages.huge)?;
        }
        Ok(mapping)
    };
    Ok(match (own, passed) {
        (Some(own), _) => own.and_then(|own| provide(own.file())).map_err(failed),
        (None, Some(file)) => provide(file.as_fd()).map_err(failed),
        (None, None) => Err(out_of_memory(what, layout.bytes())),
    })
}

fn out_of_memory(what: &str, wanted: u64) -> Error {
    Error::OutOfMemory {
        what: what.to_owned(),
        wanted: Bytes(wanted),
        available: Bytes(available_memory().unwrap_or(0)),
    }
}

/// What ranks tell each other before they allocate.
#[derive(Clone, Copy)]
#[repr(C)]
struct Wish {
    bytes: u64,
    key: Key,
    fits: bool,
    dropped: [u8; 32],
}

/// What ranks tell each other when they split: color (u64::MAX: none) and key.
#[derive(Clone, Copy)]
#[repr(C)]
struct SplitSide {
    color: u64,
    key: u32,
}

impl RankEnd {
    pub(super) fn allocate(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.endpoint.ready()?;
        crate::at_once::host_only("shm", space)?;
        self.forget_prepared();
        let what = format!("{} ranks x {} of shared buffers", self.endpoint.ranks(), Bytes(bytes as u64));
        let layout = Layout::new(&self.endpoint.members, bytes);
        // All ranks allocate at once, on one host: rank 0 looks for all.
        let wanted = layout.as_ref().map_or(u64::MAX, Layout::bytes);
        let fits = self.endpoint.rank() > 0 || available_memory().is_none_or(|available| wanted <= available);
        let key = Key::from_le_bytes(*token()?.first_chunk().unwrap_or(&[1; 4]));
        let wishes =
            self.endpoint.gather(Wish { bytes: bytes as u64, key, fits, dropped: self.endpoint.registry.dropped() })?;
        if let Some(rank) = wishes.iter().position(|wish| wish.bytes != bytes as u64) {
            let (own, theirs) = (Bytes(bytes as u64), Bytes(wishes[rank].bytes));
            return Err(Error::Mismatch(format!(
                "rank {} allocates {own}, rank {rank} {theirs}",
                self.endpoint.rank()
            )));
        }
        let everywhere =
            wishes.iter().fold([u8::MAX; 32], |all, wish| std::array::from_fn(|i| all[i] & wish.dropped[i]));
        self.endpoint.registry.forget(&everywhere);
        let key = wishes[0].key;
        let Some(layout) = layout.filter(|_| wishes[0].fits) else { return Err(out_of_memory(&what, wanted)) };
        let mapped = share(&self.star, self.endpoint.rank(), &layout, &what, &self.endpoint.abort)?;
        let states = self.endpoint.gather((mapped.is_ok(), self.endpoint.registry.is_free(key)))?;
        let mapping = mapped?;
        if states.iter().any(|(mapped, _)| !mapped) {
            return Err(out_of_memory(&what, wanted));
        }
        if states.iter().any(|(_, free)| !free) {
            // One in four thousand million: draw another key.
            return self.allocate(bytes, space);
        }
        // Not the pages between parts, which are nobody's: mapping these, too, took two thirds of the time with 256 ranks.
        layout.parts.iter().for_each(|part| mapping.populate(part.pages.clone()));
        let small = || Error::Mismatch("a peer gave too small an allocation".to_owned());
        let views = Views::new(key, bytes, &self.endpoint.members, mapping, &layout).ok_or_else(small)?;
        let views = Arc::new(views);
        self.endpoint.registry.add(views.clone());
        region(&views, self.endpoint.members[self.endpoint.rank()]).ok_or_else(small)
    }

    /// This rank's group of those that all ranks are split into.
    pub fn part(&mut self, color: Option<u32>, key: u32) -> Result<Option<RankEnd>> {
        self.endpoint.ready()?;
        let sides = self.endpoint.gather(SplitSide { color: color.map_or(u64::MAX, u64::from), key })?;
        let entry = |side: &SplitSide| (u32::try_from(side.color).ok(), side.key);
        let entries: Vec<(Option<u32>, u32)> = sides.iter().map(entry).collect();
        let own = self.endpoint.shape.rank;
        let members = crate::members(&entries, own);
        let leads = members.as_ref().is_some_and(|members| members[0] == own);
        let invitation = if leads { Some(Invitation::new()?) } else { None };
        let name = invitation.as_ref().map_or([0; 16], |invitation| invitation.name);
        let cards: Vec<(Token, Token)> = self.endpoint.gather((token()?, name))?;
        let Some(members) = members else { return Ok(None) };
        let rank = members.iter().position(|member| *member == own).unwrap_or(0) as u32;
        let tokens: Vec<Token> = members.iter().map(|member| cards[*member as usize].0).collect();
        let star = join(invitation, rank, &tokens, &cards[members[0] as usize].1, &self.endpoint.abort)?;
        let size = members.len() as u32;
        let cores: Vec<Option<u32>> = members.iter().map(|member| self.cores[*member as usize]).collect();
        let order = Order::for_size(size as usize, self.endpoint.oversubscribed && is_crowded(cores.iter().copied()));
        let processes = |cross: &Cross| cross.for_members(&members);
        let mut group = RankEnd::new(GroupParts {
            shape: shape(rank, size),
            areas: areas(&star, (rank, size), order, 0, &self.endpoint.abort)?.0,
            registry: Arc::new(Registry::below(&self.endpoint.registry)),
            star,
            abort: self.endpoint.abort.clone(),
            oversubscribed: self.endpoint.oversubscribed,
            looks: self.endpoint.rounds.looks(),
            crowd: self.crowd,
            cores,
            cross: self.cross.as_ref().map(processes),
            members: members.iter().map(|member| self.endpoint.members[*member as usize]).collect(),
        });
        group.endpoint.near = near::find(&mut group.endpoint)?;
        Ok(Some(group))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// On a thread of its own, which ends with its binding.
    #[test]
    fn the_core_that_a_rank_is_bound_to_is_known_and_no_other() {
        let seen = std::thread::spawn(|| {
            let free = core(&Options::default());
            // SAFETY: an empty set that is filled within its size.
            let own = unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                let own = libc::sched_getcpu() as usize;
                libc::CPU_SET(own, &mut set);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
                own as u32
            };
            let elsewhere = Options { progress_thread: true, progress_core: Some(own + 1), ..Options::default() };
            (free, core(&Options::default()) == Some(own), core(&elsewhere) == Some(own + 1))
        });
        let (free, bound, elsewhere) = seen.join().unwrap();
        let several = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        assert!(bound && elsewhere && (free.is_none() || !several), "{free:?}");
    }
}
