//! The clocks of all ranks of a simulated world. While they agree they are one number, however many ranks there are.

/// Nanoseconds of one clock for each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// So many clocks that agree.
    Same {
        /// What they show.
        ns: u64,
        /// How many there are.
        ranks: u32,
    },
    /// In rank order.
    Each(Vec<u64>),
}

impl Clocks {
    /// So many clocks, all at zero.
    pub fn new(ranks: u32) -> Self {
        Self::Same { ns: 0, ranks }
    }

    /// How many.
    pub fn ranks(&self) -> u32 {
        match self {
            Self::Same { ranks, .. } => *ranks,
            Self::Each(clocks) => clocks.len() as u32,
        }
    }

    /// Clock of a rank.
    pub fn get(&self, rank: u32) -> u64 {
        match self {
            Self::Same { ns, .. } => *ns,
            Self::Each(clocks) => clocks[rank as usize],
        }
    }

    /// The latest of them.
    pub fn latest(&self) -> u64 {
        match self {
            Self::Same { ns, .. } => *ns,
            Self::Each(clocks) => clocks.iter().copied().max().unwrap_or(0),
        }
    }

    /// Sets the clock of a rank.
    pub fn set(&mut self, rank: u32, ns: u64) {
        if self.get(rank) != ns {
            self.each()[rank as usize] = ns;
        }
    }

    /// What this is of each.
    #[must_use]
    pub fn map(&self, of: impl Fn(u64) -> u64) -> Self {
        match self {
            Self::Same { ns, ranks } => Self::Same { ns: of(*ns), ranks: *ranks },
            Self::Each(clocks) => Self::Each(clocks.iter().map(|clock| of(*clock)).collect()),
        }
    }

    /// What this is of each and of another's of the same rank.
    fn with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        match (self, other) {
            (_, Self::Same { ns, .. }) => self.map(|own| of(own, *ns)),
            (Self::Same { ns, .. }, _) => other.map(|others| of(*ns, others)),
            (Self::Each(own), Self::Each(others)) => {
                Self::Each(own.iter().zip(others).map(|(own, others)| of(*own, *others)).collect())
            }
        }
    }

    /// Nanoseconds since `begin`, of the same clocks.
    #[must_use]
    pub fn since(&self, begin: &Self) -> Self {
        self.with(begin, |now, then| now - then)
    }

    /// The sum with as many others.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, |one, more| one + more)
    }

    /// The clocks, each so many times as large.
    #[must_use]
    pub fn times(&self, factor: u64) -> Self {
        self.map(|ns| factor * ns)
    }

    /// Moves all that are behind to this instant.
    pub fn advance_to(&mut self, ns: u64) {
        match self {
            Self::Same { ns: all, .. } => *all = ns.max(*all),
            Self::Each(clocks) => clocks.iter_mut().for_each(|clock| *clock = ns.max(*clock)),
        }
    }

    fn each(&mut self) -> &mut Vec<u64> {
        if let Self::Same { ns, ranks } = *self {
            *self = Self::Each(vec![ns; ranks as usize]);
        }
        match self {
            Self::Each(clocks) => clocks,
            Self::Same { .. } => unreachable!("they were taken apart just now"),
        }
    }
}
