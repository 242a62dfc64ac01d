//! Which rank a process is that another program started: that program says so in the environment, and nowhere else.

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// Open MPI's mpirun.
    OpenMpi,
    /// Hydra and what else speaks PMI: mpiexec of MPICH, Intel MPI, MVAPICH.
    Pmi,
}

/// Name in the argument, variables of rank and number of ranks.
const SEATS: [(Seat, &str, [&str; 2]); 2] = [
    (Seat::OpenMpi, "ompi", ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"]),
    (Seat::Pmi, "pmi", ["PMI_RANK", "PMI_SIZE"]),
];

impl Seat {
    pub(crate) fn name(self) -> &'static str {
        SEATS.iter().find(|(seat, ..)| *seat == self).map_or("", |(_, name, _)| name)
    }

    pub(super) fn of_name(name: &str) -> Option<Self> {
        SEATS.iter().find(|(_, known, _)| *known == name).map(|(seat, ..)| *seat)
    }

    /// This process's rank in a world of `size`.
    ///
    /// # Errors
    /// When the launcher does not say it, or has started another number.
    pub(super) fn rank(self, size: u32) -> Result<u32, String> {
        self.rank_in(size, |name| std::env::var(name).ok())
    }

    fn rank_in(self, size: u32, variable: impl Fn(&str) -> Option<String>) -> Result<u32, String> {
        let names = SEATS.iter().find(|(seat, ..)| *seat == self).map_or([""; 2], |(.., names)| *names);
        let number = |name: &str| {
            let text = variable(name).ok_or_else(|| format!("its launcher sets no {name}"))?;
            text.parse::<u32>().map_err(|_| format!("its launcher sets {name} to `{text}`"))
        };
        let (rank, started) = (number(names[0])?, number(names[1])?);
        if started == size { Ok(rank) } else { Err(format!("its launcher started {started} ranks, not {size}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_and_cross_checked() {
        let of = |rank: &'static str, size: &'static str| {
            move |name: &str| match name {
                "PMI_RANK" => Some(rank.to_owned()),
                "PMI_SIZE" => Some(size.to_owned()),
                _ => None,
            }
        };
        assert_eq!(Seat::Pmi.rank_in(4, of("3", "4")), Ok(3));
        assert_eq!(Seat::Pmi.rank_in(4, of("0", "1")), Err("its launcher started 1 ranks, not 4".to_owned()));
        assert_eq!(Seat::Pmi.rank_in(4, of("x", "4")), Err("its launcher sets PMI_RANK to `x`".to_owned()));
        assert_eq!(Seat::OpenMpi.rank_in(4, of("3", "4")), Err("its launcher sets no OMPI_COMM_WORLD_RANK".to_owned()));
        for (seat, name, _) in SEATS {
            assert_eq!((seat.name(), Seat::of_name(name)), (name, Some(seat)));
        }
    }
}
