//! The fields of an interference case.

use contract::fields::{ANY_BACKEND, DEVICE, RANKS, SEED, THREADS};
use terms::{Collective, Field, Kind, Label, Named};

terms::named! {
    /// What a rank does.
    pub(super) enum Activity("activity") {
        /// A product of square matrices.
        Product = "product",
        /// A collective of all ranks.
        Collective = "collective",
        /// The operation of `collective`, in another communicator of these ranks.
        Second = "second",
        /// Copies in memory of the host.
        HostCopy = "host_copy",
        /// Reads of a file that the system has forgotten.
        StorageRead = "storage_read",
        /// Each of the activities.
        All = "all",
    }
}

impl Activity {
    /// Each activity, in the order of tables.
    pub(super) const EACH: [Self; 5] =
        [Self::Product, Self::Collective, Self::Second, Self::HostCopy, Self::StorageRead];

    /// For a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Product => "a product",
            Self::Collective => "a collective",
            Self::Second => "a second collective",
            Self::HostCopy => "a copy in memory",
            Self::StorageRead => "a read from storage",
            Self::All => "each activity",
        }
    }
}

terms::named! {
    /// What runs beside it.
    pub(super) enum Beside("beside") {
        /// Nothing.
        None = "none",
        /// As [`Activity::Product`].
        Product = "product",
        /// As [`Activity::Collective`].
        Collective = "collective",
        /// As [`Activity::Second`].
        Second = "second",
        /// As [`Activity::HostCopy`].
        HostCopy = "host_copy",
        /// As [`Activity::StorageRead`].
        StorageRead = "storage_read",
        /// Nothing, and each other activity.
        All = "all",
    }
}

/// Operations that all ranks give to and get from.
fn ops() -> Vec<&'static str> {
    [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll]
        .map(Collective::name)
        .to_vec()
}

const fn size(default: &'static str, doc: &'static str) -> Field {
    Field::new(Kind::Bytes, Some(default), doc).always().label(Label::Quiet)
}

record::fields! {
    /// What a case is.
    pub(super) struct InterferenceFields {
        activity: Activity = Field::new(Kind::Word(Activity::names), Some("all"), "what is timed").always().common(),
        beside: Beside = Field::new(Kind::Word(Beside::names), Some("all"), "what runs meanwhile on the same ranks")
            .always()
            .label(Label::Around("beside {}"))
            .common(),
        ranks: u32 = RANKS,
        threads: Option<u32> = Field { doc: "threads of each rank's product (default: 1)", ..THREADS },
        backend: Option<String> = Field { doc: "what moves data between ranks (default: shm)", ..ANY_BACKEND },
        device: String = DEVICE,
        collective_op: Collective = Field::new(
            Kind::Word(ops),
            Some("all_reduce"),
            "the operation of both collectives",
        )
        .always()
        .label(Label::Quiet),
        collective_bytes: u64 = size("1MiB", "message size of the collective").common(),
        second_bytes: u64 = size("64KiB", "message size of the second collective").common(),
        product_size: u64 = Field::new(
            Kind::Whole(1, 1 << 14),
            Some("512"),
            "rows, columns and depth of the product",
        )
        .always()
        .label(Label::Quiet)
        .common(),
        copy_bytes: u64 = size("64MiB", "working set of the copy: half is read, half is written").common(),
        read_bytes: u64 = size("16MiB", "size of the file that is read").common(),
        path: Option<String> = Field::new(
            Kind::Text,
            None,
            "storage_read: folder for its file (default: the current folder)",
        )
        .label(Label::Quiet),
        seed: u64 = SEED,
    }
}

/// The fields that mean something in an activity, besides those of every case.
pub(super) const fn own(activity: Activity) -> &'static [&'static str] {
    match activity {
        Activity::Product => &["product_size"],
        Activity::Collective => &["collective_op", "collective_bytes"],
        Activity::Second => &["collective_op", "second_bytes"],
        Activity::HostCopy => &["copy_bytes"],
        Activity::StorageRead => &["read_bytes", "path"],
        Activity::All => &[],
    }
}

/// All fields that are some activity's own.
pub(super) fn all_own() -> impl Iterator<Item = &'static str> {
    Activity::EACH.into_iter().flat_map(|activity| own(activity).iter().copied())
}
