//! The fields of a start-up case.

use contract::fields::{ANY_BACKEND, DEVICES, RANKS, SEED};
use terms::{Collective, Field, Kind, Label, Named};

terms::named! {
    /// A stage of start-up.
    pub(super) enum Stage("stage") {
        /// From the start of joining until the communicator of all ranks is open.
        Join = "join",
        /// The first call on a communicator.
        FirstCall = "first_call",
        /// A call on a communicator that has made such calls.
        LaterCall = "later_call",
        /// Opening one more communicator of all ranks.
        Communicator = "communicator",
        /// Each of the stages.
        All = "all",
    }
}

impl Stage {
    /// Each stage.
    pub(super) const EACH: [Self; 4] = [Self::Join, Self::FirstCall, Self::LaterCall, Self::Communicator];

    /// Whether it is one call of an operation.
    pub(super) fn is_call(self) -> bool {
        matches!(self, Self::FirstCall | Self::LaterCall)
    }
}

terms::named! {
    /// Which processes a stage runs in.
    pub(super) enum Start("start") {
        /// Fresh processes: nothing of the kind ran there before.
        Cold = "cold",
        /// The processes of a cold start, once more.
        Warm = "warm",
        /// Fresh processes, and then the same ones again.
        Both = "both",
    }
}

/// Operations in which each rank waits for all others, so that the last one shows.
fn ops() -> Vec<&'static str> {
    [Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll]
        .map(Collective::name)
        .to_vec()
}

record::fields! {
    /// What a case is.
    pub(super) struct StartupFields {
        stage: Stage = Field::new(Kind::Word(Stage::names), Some("all"), "the stage of start-up").always().common(),
        start: Start = Field::new(
            Kind::Word(Start::names),
            Some("both"),
            "cold: in fresh processes; warm: again in the same",
        )
        .always()
        .common(),
        ranks: u32 = RANKS,
        backend: Option<String> = Field { doc: "what moves data between ranks (default: shm)", ..ANY_BACKEND },
        device: String = DEVICES,
        op: Option<Collective> = Field::new(
            Kind::Word(ops),
            None,
            "first_call, later_call: the operation (default: all_reduce)",
        )
        .common(),
        bytes: Option<u64> = Field::new(
            Kind::Bytes,
            None,
            "first_call, later_call: message size (default: 64KiB)",
        )
        .common(),
        communicators: Option<u32> = Field::new(
            Kind::Whole(0, 256),
            None,
            "communicator: how many others are open already (default: 0, 4, 16)",
        )
        .label(Label::Around("{} open"))
        .common(),
        seed: u64 = SEED,
    }
}
