//! The command by which a launcher started this program: what a run is repeated with.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use process::{Ancestor, ancestors};

use crate::rank::Seat;

use super::{KEEPERS, above};

/// The launcher's words before this program's own command line (`mpirun`, `-n`, `4`): as typed where a process above this
/// one shows them, else the shortest that starts as many ranks. Empty where no command does (Kubernetes). What may be secret
/// is masked.
pub(super) fn words(seat: Seat, size: u32, hosts: usize, own: &[OsString]) -> Vec<String> {
    let own: Vec<String> = own.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let launchers: Vec<Ancestor> = ancestors().into_iter().filter(above::is_launcher).collect();
    let typed = launchers.iter().find_map(|launcher| before(&line_of(launcher.pid), &own));
    let in_step = launchers.first().is_some_and(|first| KEEPERS.iter().any(|name| first.name.starts_with(name)));
    typed.map(masked).unwrap_or_else(|| shortest(seat, in_step, size, hosts))
}

fn line_of(pid: u32) -> Vec<String> {
    let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
    let words = line.strip_suffix(&[0]).unwrap_or(&line).split(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// What stands before this program's own words, where a line ends with these. The program may be named by another path.
fn before(line: &[String], own: &[String]) -> Option<Vec<String>> {
    let (program, arguments) = own.split_first()?;
    let (head, tail) = line.split_at_checked(line.len().checked_sub(own.len())?)?;
    let name = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
    let same = name(tail.first()?) == name(program) && tail[1..] == *arguments;
    (same && !head.is_empty()).then(|| head.to_vec())
}

/// Values of what is named like a secret are masked, also where they stand in a word of their own (`--mca NAME VALUE`).
fn masked(words: Vec<String>) -> Vec<String> {
    let mut hide = false;
    let each = words.into_iter().map(|word| {
        let hidden = std::mem::replace(&mut hide, !word.contains('=') && record::smells_like_secret(&word));
        if hidden { "***".to_owned() } else { word }
    });
    record::command_line(each)
}

fn shortest(seat: Seat, in_step: bool, size: u32, hosts: usize) -> Vec<String> {
    let line = match seat {
        Seat::Pmi if in_step => format!("srun --mpi=pmi2 -N {hosts} -n {size}"),
        _ if in_step || seat == Seat::Slurm => format!("srun -N {hosts} -n {size}"),
        Seat::OpenMpi => format!("mpirun -n {size}"),
        Seat::Pmi | Seat::Slurm => format!("mpiexec -n {size}"),
        Seat::Torchrun if hosts == 1 => format!("torchrun --no-python --nproc-per-node {size}"),
        Seat::Torchrun | Seat::Kubernetes => String::new(),
    };
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_launchers_words_are_those_before_our_own() {
        let own = split("/opt/bin/rankmark comm all_reduce --bytes 1KiB");
        let typed = split("/usr/bin/mpirun -x A=1 -n 4 rankmark comm all_reduce --bytes 1KiB");
        assert_eq!(before(&typed, &own), Some(split("/usr/bin/mpirun -x A=1 -n 4")));
        for other in
            ["mpirun -n 4 script.sh", "rankmark comm all_reduce --bytes 1KiB", "mpirun -n 4 other comm all_reduce", ""]
        {
            assert_eq!(before(&split(other), &own), None, "{other}");
        }
    }

    #[test]
    fn secrets_of_a_launchers_line_are_masked() {
        let typed = split("mpirun -x HF_TOKEN=abc --mca orte_precondition_transports 12-34 --mca btl tcp -n 2");
        let kept = split("mpirun -x HF_TOKEN=*** --mca orte_precondition_transports *** --mca btl tcp -n 2");
        assert_eq!(masked(typed), kept);
    }

    #[test]
    fn every_launcher_has_a_shortest_line_but_kubernetes() {
        let line = |seat, in_step, hosts| shortest(seat, in_step, 4, hosts).join(" ");
        assert_eq!(line(Seat::OpenMpi, false, 1), "mpirun -n 4");
        assert_eq!(line(Seat::OpenMpi, true, 2), "srun -N 2 -n 4");
        assert_eq!(line(Seat::Pmi, false, 1), "mpiexec -n 4");
        assert_eq!(line(Seat::Pmi, true, 1), "srun --mpi=pmi2 -N 1 -n 4");
        assert_eq!(line(Seat::Slurm, false, 2), "srun -N 2 -n 4");
        assert_eq!(line(Seat::Torchrun, false, 1), "torchrun --no-python --nproc-per-node 4");
        assert_eq!(line(Seat::Kubernetes, false, 4), "");
    }
}
