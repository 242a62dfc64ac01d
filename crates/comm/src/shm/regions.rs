//! Registered memory: what a communicator allocated, and where this rank sees every rank's part of it.
//!
//! Peers receive a call's buffers as (key of the allocation, offset). A key can be looked up on every rank for as long
//! as *any* rank holds its region: entries go only when all ranks have dropped theirs, which they tell each other in
//! the next collective `alloc`. The pages of a dropped region are given back at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use device::{Region, SharedMapping, Slice};

use super::parts::AllParts;

/// Names an allocation among ranks. Zero: memory of the rank's own.
pub(crate) type Key = u32;

/// Every rank's part of one allocation.
#[derive(Debug)]
pub(crate) struct Views {
    pub(crate) key: Key,
    /// Usable bytes of each part.
    len: usize,
    /// All parts.
    mapping: Arc<SharedMapping>,
    /// Where each rank's data begins, by rank of the world that all communicators of a family descend from; None for ranks
    /// outside the allocation.
    begins: Vec<Option<usize>>,
    /// This rank dropped its region.
    dropped: AtomicBool,
}

impl Views {
    /// `parts[i]` is that of world rank `members[i]`. None if the mapping does not hold them.
    pub(crate) fn new(
        key: Key,
        len: usize,
        members: &[u32],
        mapping: Arc<SharedMapping>,
        parts: &AllParts,
    ) -> Option<Self> {
        let mut begins = Vec::new();
        for (member, part) in members.iter().zip(&parts.parts) {
            if mapping.len() < part.begin.checked_add(len)? {
                return None;
            }
            let index = *member as usize;
            if begins.len() <= index {
                begins.resize(index + 1, None);
            }
            begins[index] = Some(part.begin);
        }
        Some(Self { key, len, mapping, begins, dropped: AtomicBool::new(false) })
    }

    /// First byte of a world rank's part.
    pub(crate) fn base(&self, member: u32) -> Option<*mut u8> {
        let begin = *self.begins.get(member as usize)?.as_ref()?;
        // SAFETY: `begin` lies inside the mapping, as checked by `new`.
        Some(unsafe { self.mapping.base().add(begin) })
    }

    /// `len` bytes from `offset` of a world rank's part; None if they do not lie inside. The offset comes from a peer.
    #[inline]
    pub(crate) fn at(&self, member: u32, offset: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: inside the part.
        self.base(member).map(|base| unsafe { base.add(offset) })
    }
}

/// What keeps a registered region's memory: found again by downcast.
#[derive(Debug)]
struct Registered {
    views: Arc<Views>,
    own: u32,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(Some(begin)) = self.views.begins.get(self.own as usize) {
            self.views.mapping.release(*begin, self.views.len);
        }
        self.views.dropped.store(true, Ordering::Release);
    }
}

/// This rank's part as a region.
pub(crate) fn region(views: &Arc<Views>, own: u32) -> Option<Arc<Region>> {
    let base = std::ptr::NonNull::new(views.base(own)?)?;
    let owner = Box::new(Registered { views: views.clone(), own });
    // SAFETY: the views keep the mapping, and the region owns the views.
    Some(Arc::new(unsafe { Region::from_raw(base, views.len, terms::Space::Host, owner) }))
}

/// A member's part, to look at: no allocation of this rank's own, so that no call takes it for registered memory.
pub(super) fn view(views: &Arc<Views>, member: u32) -> Option<Arc<Region>> {
    let base = std::ptr::NonNull::new(views.base(member)?)?;
    // SAFETY: the views keep the mapping, and the region owns the views.
    Some(Arc::new(unsafe { Region::from_raw(base, views.len, terms::Space::Host, Box::new(views.clone())) }))
}

/// The allocations that a communicator can look up: its own, and those of the communicators that it was split from.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Mutex<Vec<Arc<Views>>>,
    parent: Option<Arc<Registry>>,
}

impl Registry {
    pub(crate) fn below(parent: &Arc<Self>) -> Self {
        Self { entries: Mutex::default(), parent: Some(parent.clone()) }
    }

    fn find(&self, key: Key) -> Option<Arc<Views>> {
        let entries = self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let own = entries.iter().find(|views| views.key == key).cloned();
        drop(entries);
        own.or_else(|| self.parent.as_ref()?.find(key))
    }

    /// The views under a key that a peer sent, if they hold all members.
    pub(crate) fn resolve(&self, key: Key, members: &[u32]) -> Option<Arc<Views>> {
        self.find(key).filter(|views| members.iter().all(|member| views.base(*member).is_some()))
    }

    /// The allocation that a slice lies in, if these members can all look it up.
    pub(crate) fn allocation(&self, slice: &Slice, members: &[u32]) -> Option<Arc<Views>> {
        let views = &slice.region().owner::<Registered>()?.views;
        self.resolve(views.key, members).filter(|found| Arc::ptr_eq(found, views))
    }

    /// Whether a new allocation may take this key.
    pub(crate) fn is_free(&self, key: Key) -> bool {
        key != 0 && self.find(key).is_none()
    }

    pub(crate) fn add(&self, views: Arc<Views>) {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(views);
    }

    /// Which of the first 256 entries this rank has dropped, a bit each. Entries stand in the same order on all ranks.
    pub(crate) fn dropped(&self) -> [u8; 32] {
        let mut bits = [0; 32];
        let entries = self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for (i, views) in entries.iter().take(256).enumerate() {
            bits[i / 8] |= u8::from(views.dropped.load(Ordering::Acquire)) << (i % 8);
        }
        bits
    }

    /// Forgets the entries that all ranks have dropped, and so unmaps them.
    pub(crate) fn forget(&self, dropped_by_all: &[u8; 32]) {
        let mut index = 0;
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).retain(|_| {
            let i = index;
            index += 1;
            i >= 256 || dropped_by_all[i / 8] & (1 << (i % 8)) == 0
        });
    }
}
