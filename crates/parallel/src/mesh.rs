//! How ranks divide the work: data x tensor x pipeline.

/// Sizes of the three axes. Ranks are numbered with tensor fastest, then data, then pipeline: parts that talk the most
/// are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    /// Replicas.
    pub data: usize,
    /// Parts of each layer.
    pub tensor: usize,
    /// Stages.
    pub pipeline: usize,
}

/// Where a rank stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinate {
    /// Which replica.
    pub data: usize,
    /// Which part.
    pub tensor: usize,
    /// Which stage.
    pub pipeline: usize,
}

impl Mesh {
    /// One rank.
    pub const SERIAL: Self = Self { data: 1, tensor: 1, pipeline: 1 };

    /// Ranks in all.
    pub fn ranks(self) -> usize {
        self.data * self.tensor * self.pipeline
    }

    /// Where a rank stands.
    pub fn coordinate(self, rank: usize) -> Coordinate {
        Coordinate {
            tensor: rank % self.tensor,
            data: rank / self.tensor % self.data,
            pipeline: rank / self.tensor / self.data,
        }
    }
}

/// `DxTxP`, as in `2x2x1`.
impl std::fmt::Display for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.data, self.tensor, self.pipeline)
    }
}

impl std::str::FromStr for Mesh {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes: Option<Vec<usize>> =
            text.split('x').map(|size| size.trim().parse().ok().filter(|size| (1..=1024).contains(size))).collect();
        match sizes.as_deref() {
            Some(&[data, tensor, pipeline]) => Ok(Self { data, tensor, pipeline }),
            _ => Err(format!("`{text}` is not a mesh: data x tensor x pipeline, for example 2x2x1")),
        }
    }
}
