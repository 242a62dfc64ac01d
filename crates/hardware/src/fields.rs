//! The fields of a hardware case, declared once as a table and as a struct.

use measure::machine;
use record::Case;
use terms::{Dtype, Field, Kind, Label, Mode, Named, Role, Space};

use contract::fields::{ANY_BACKEND, DEVICE, MODE, RANKS, SEED, THREADS};
use primitive::Products;

terms::named! {
    /// What a hardware case measures. The first five are loops over arrays of f64: those of STREAM (McCalpin, 1995), and the
    /// loop of an all_reduce in shared memory.
    pub(super) enum Test("test") {
        /// c = a.
        Copy = "copy",
        /// c = 3 a.
        Scale = "scale",
        /// c = a + b.
        Add = "add",
        /// c = a + 3 b.
        Triad = "triad",
        /// a = b = (a + b) / 2.
        ReduceBroadcast = "reduce_broadcast",
        /// The triad from the cores of each NUMA node to the memory of each.
        Numa = "numa",
        /// Multiplications and additions in registers.
        Fma = "fma",
        /// A product of square matrices.
        Gemm = "gemm",
        /// Short messages to and fro between each two ranks.
        Latency = "latency",
        /// Long messages to and fro between each two ranks.
        Bandwidth = "bandwidth",
        /// Long messages between each two ranks, both ways at once.
        BothWays = "both_ways",
        /// Copies from the memory of each other GPU, by the copy engine.
        PeerCopy = "peer_copy",
        /// A file read through a mapping, after the system has forgotten its pages.
        StorageRead = "storage_read",
        /// A copy from pinned memory of the host to memory of a device.
        HostToDevice = "host_to_device",
        /// A copy from memory of a device to pinned memory of the host.
        DeviceToHost = "device_to_host",
        /// Copies both ways between host and device at the same time.
        HostBothWays = "host_both_ways",
        /// A copy within memory of a device, by its copy engine.
        DeviceCopy = "device_copy",
        /// A load by a device from pinned memory of the host, after the one before it.
        HostLatency = "host_latency",
        /// Seeded products, sums and a training step again and again, whose results must be the same bits each time.
        Results = "results",
        /// Each of the tests, for a profile of the machine.
        All = "all",
    }
}

/// What a test is about: which fields it takes, and what runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
    Memory,
    Nodes,
    Compute,
    Pairs,
    Storage,
    Transfer,
    Results,
    All,
}

impl Test {
    /// What it is about.
    pub(super) const fn area(self) -> Area {
        match self {
            Self::Fma | Self::Gemm => Area::Compute,
            Self::Latency | Self::Bandwidth | Self::BothWays | Self::PeerCopy => Area::Pairs,
            Self::Numa => Area::Nodes,
            Self::StorageRead => Area::Storage,
            Self::HostToDevice | Self::DeviceToHost | Self::HostBothWays | Self::DeviceCopy | Self::HostLatency => {
                Area::Transfer
            }
            Self::Results => Area::Results,
            Self::All => Area::All,
            _ => Area::Memory,
        }
    }

    /// Arrays that a loop over memory goes through.
    pub(super) const fn arrays(self) -> u64 {
        match self {
            Self::Add | Self::Triad => 3,
            _ => 2,
        }
    }

    /// Times that each byte of a copy counts: in each direction, and where it is read and written in one memory, as of loops.
    pub(super) const fn copies(self) -> u64 {
        match self {
            Self::HostToDevice | Self::DeviceToHost => 1,
            Self::HostBothWays | Self::DeviceCopy => 2,
            _ => 0,
        }
    }

    /// Bytes that count for each element: each word that the loop reads or writes, as STREAM counts.
    pub(super) const fn counted_bytes(self) -> u64 {
        match self {
            Self::Add | Self::Triad => 24,
            // Both arrays are read and written.
            Self::ReduceBroadcast => 32,
            _ => 16,
        }
    }

    /// Bytes that a loop moves for each element: those that count, and the line that a cache reads before it is written
    /// (write-allocate). What the loop has read itself is not read again.
    pub(super) const fn moved_bytes(self) -> u64 {
        match self {
            Self::ReduceBroadcast => self.counted_bytes(),
            _ => self.counted_bytes() + 8,
        }
    }
}

/// Where ranks of GPUs compute, too. It has no default: all tests of a machine are those of its GPUs, too.
const DEVICES: Field = Field {
    kind: Kind::Word(|| vec!["cpu", CUDA]),
    default: None,
    doc: "what is measured: cpu, or GPUs (default: cpu; all tests: both)",
    ..DEVICE
};

/// Devices beside the host's processors.
pub(super) use contract::fields::CUDA;

/// GPUs that ranks can have, at least one: a rank says what is missing where there is none.
pub(super) fn gpus() -> u32 {
    machine::gpus().clamp(1, 1024) as u32
}

/// Whether the case measures GPUs.
pub(super) fn is_on_gpus(case: &Case) -> bool {
    HardwareFields::of(case).is_ok_and(|fields| fields.is_on_gpus())
}

impl HardwareFields {
    /// Whether the case measures GPUs.
    pub(super) fn is_on_gpus(&self) -> bool {
        self.device.as_deref() == Some(CUDA)
    }

    /// Where the case's buffers lie.
    pub(super) fn space(&self) -> Space {
        if self.is_on_gpus() { Space::Cuda } else { Space::Host }
    }

    /// What a peak of computation is of: a type, or a way to multiply it that is not the type's own.
    pub(super) fn arithmetic(&self, dtype: Dtype) -> String {
        if self.matmul == Products::Auto { dtype.name().to_owned() } else { self.matmul.name().to_owned() }
    }
}

/// What only some tests take.
const fn of_some(kind: Kind, doc: &'static str) -> Field {
    Field::new(kind, None, doc).common()
}

fn dtypes() -> Vec<&'static str> {
    [Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16, Dtype::F8E4M3, Dtype::I8].map(Dtype::name).to_vec()
}

record::fields! {
    /// What a case is.
    pub(super) struct HardwareFields {
        test: Test = Field::new(Kind::Word(Test::names), Some("all"), "what is measured").always().common(),
        ranks: Option<u32> = Field {
            doc: "number of ranks (default: 1; between ranks: one a core, at least 4)",
            default: None,
            ..RANKS
        },
        threads: Option<u32> = Field { doc: "threads of each rank (default: all cores, divided among ranks)", ..THREADS },
        backend: Option<String> = Field { role: Role::Launch, ..ANY_BACKEND },
        device: Option<String> = DEVICES,
        bytes: Option<u64> = of_some(
            Kind::Bytes,
            "working set of a rank, message or file (default: several; 8 B; 1 MiB; 256 MiB)",
        ),
        dtype: Option<Dtype> = of_some(Kind::Word(dtypes), "fma, gemm: element type (default: f32, f64, bf16); gemm of GPUs: f8e4m3, i8, too"),
        size: Option<u64> = of_some(
            Kind::Whole(1, 1 << 16),
            "gemm: rows, columns and depth of the product (default: 256, 1024, 2048; cuda: 1024, 4096, 8192)",
        ),
        matmul: Products = primitive::MATMUL,
        tuned: bool = contract::fields::TUNED,
        cublas_library: Option<String> = contract::fields::CUBLAS_LIBRARY,
        path: Option<String> = Field::new(
            Kind::Text,
            None,
            "storage_read: folder for its file (default: the current folder)",
        )
        .label(Label::Quiet),
        mode: Mode = MODE,
        seed: u64 = SEED,
    }
}
