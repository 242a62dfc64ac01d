//! How a library's own `mpirun` is asked to start ranks.

use std::path::Path;
use std::process::Command;

use comm::mpi::Vendor;
use survey::Mpirun;

use crate::rank::Seat;

/// Where its ranks learn their number.
pub(crate) const fn seat(mpirun: &Mpirun) -> Seat {
    match mpirun.vendor {
        Vendor::OpenMpi => Seat::OpenMpi,
        Vendor::Mpich | Vendor::Intel | Vendor::Mvapich => Seat::Pmi,
    }
}

/// Its command to start `ranks` ranks of a program on this host, unbound: ranks bind themselves.
pub(crate) fn command(mpirun: &Mpirun, ranks: u32, extra: &[String], program: &Path, argument: &str) -> Command {
    let mut command = Command::new(&mpirun.program);
    command.args(["-n", &ranks.to_string()]);
    if mpirun.vendor == Vendor::OpenMpi {
        // It counts cores, not what may run here; and it would bind ranks by itself.
        command.args(["--oversubscribe", "--bind-to", "none"]);
        if rustix::process::geteuid().is_root() {
            for name in ["OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"] {
                command.env(name, "1").env(format!("{name}_CONFIRM"), "1");
            }
        }
    }
    command.args(extra).arg(program).arg(argument);
    command
}
