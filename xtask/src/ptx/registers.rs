//! How many registers each kernel takes on each GPU, as ptxas says: a table in the repository, so that a review sees what a change of a
//! kernel does to it. Registers decide how many threads a multiprocessor holds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::GPUS;

/// The table, from the root.
pub(super) const FILE: &str = "xtask/src/ptx/registers.txt";

/// Kernels by source and name, and their registers by GPU.
#[derive(Default)]
pub(super) struct Table(BTreeMap<String, BTreeMap<String, u32>>);

impl Table {
    pub(super) fn add(&mut self, source: &str, gpu: &str, kernels: Vec<(String, u32)>) {
        let source = Path::new(source).file_name().unwrap_or_default().to_string_lossy();
        for (kernel, registers) in kernels {
            self.0.entry(format!("{source}/{kernel}")).or_default().insert(gpu.to_owned(), registers);
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |to: &mut fmt::Formatter<'_>, name: &str, cells: [String; GPUS.len()]| {
            write!(to, "{name:<48}")?;
            cells.iter().try_for_each(|cell| write!(to, "{cell:>8}"))?;
            writeln!(to)
        };
        row(to, "registers a thread", GPUS.map(str::to_owned))?;
        for (kernel, by_gpu) in &self.0 {
            let cell = |gpu| by_gpu.get(gpu).map_or_else(|| "-".to_owned(), u32::to_string);
            row(to, kernel, GPUS.map(cell))?;
        }
        Ok(())
    }
}

/// Rows that differ: those that were there with `-`, those that are with `+`.
pub(super) fn changes(held: &str, made: &str) -> String {
    let only_in = |sign: &str, of: &str, other: &str| -> String {
        of.lines()
            .filter(|line| !other.lines().any(|each| each == *line))
            .map(|line| format!("{sign} {line}\n"))
            .collect()
    };
    only_in("-", held, made) + &only_in("+", made, held)
}

/// Each kernel that ptxas assembled, and its registers. None that `runs` may spill.
pub(super) fn read(report: &str, runs: impl Fn(&str) -> bool) -> Result<Vec<(String, u32)>, String> {
    let mut kernels: Vec<(String, u32)> = Vec::new();
    let mut name = None;
    for line in report.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            if let Some(name) = name {
                return Err(format!("{name}: no registers"));
            }
            name = rest.split('\'').next();
        } else if line.contains("spill stores")
            && !line.contains(" 0 bytes spill stores, 0 bytes spill loads")
            && name.is_none_or(&runs)
        {
            return Err(format!("{}: {}", name.unwrap_or("a kernel"), line.trim()));
        } else if let Some(rest) = line.split("Used ").nth(1) {
            let registers = rest.split(' ').next().and_then(|number| number.parse().ok());
            match (name.take(), registers) {
                (Some(name), Some(registers)) => kernels.push((name.to_owned(), registers)),
                _ => return Err(format!("this line names no kernel or no number: {}", line.trim())),
            }
        }
    }
    if let Some(name) = name {
        return Err(format!("{name}: no registers"));
    }
    match (kernels.len(), report.matches("spill stores").count()) {
        (0, _) => Err("it tells of no kernel".to_owned()),
        // Functions that kernels call have stacks, too.
        (kernels, stacks) if kernels > stacks => Err(format!("{kernels} kernels, and stacks of only {stacks}")),
        _ => Ok(kernels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kernel: &str, spilled: u32, registers: &str) -> String {
        format!(
            "ptxas info    : Compiling entry function '{kernel}' for 'sm_90'\n\
             ptxas info    : Function properties for {kernel}\n    \
             0 bytes stack frame, {spilled} bytes spill stores, 0 bytes spill loads\n\
             ptxas info    : Used {registers} registers, used 0 barriers\n"
        )
    }

    #[test]
    fn kernels_have_their_registers() {
        let two = report("fill", 0, "16") + &report("add", 0, "255");
        assert_eq!(read(&two, |_| true), Ok(vec![("fill".to_owned(), 16), ("add".to_owned(), 255)]));
        let spills = report("fill", 0, "16") + &report("add", 8, "255");
        assert_eq!(read(&spills, |kernel| kernel != "add").map(|all| all.len()), Ok(2));
        let spilled = read(&spills, |_| true).unwrap_err();
        assert!(spilled.starts_with("add: ") && spilled.contains("8 bytes spill stores"), "{spilled}");
        assert!(read("ptxas info    : 0 bytes gmem\n", |_| true).is_err());
        assert!(read(&report("fill", 0, "many"), |_| true).is_err());
        let without = |part: &str| {
            read(&two.lines().filter(|line| !line.contains(part)).collect::<Vec<_>>().join("\n"), |_| true)
        };
        assert_eq!(without("Used 16"), Err("fill: no registers".to_owned()));
        assert!(without("entry function 'fill'").is_err() && without("spill stores").is_err());
    }

    #[test]
    fn a_change_of_registers_shows_both_rows() {
        let table = |registers| {
            let mut table = Table::default();
            table.add("crates/engine/kernels/train", "sm_80", vec![("fill".to_owned(), registers)]);
            table.add("crates/engine/kernels/train", "sm_90", vec![("fill".to_owned(), 20)]);
            table.to_string()
        };
        assert!(table(16).contains("train/fill"), "{}", table(16));
        let row: Vec<String> = table(16).lines().nth(1).unwrap().split_whitespace().map(str::to_owned).collect();
        assert_eq!(row, ["train/fill", "-", "16", "-", "20", "-", "-"]);
        assert_eq!(changes(&table(16), &table(16)), "");
        let changed = changes(&table(16), &table(18));
        let signs: Vec<&str> = changed.lines().map(|line| &line[..1]).collect();
        assert!(signs == ["-", "+"] && changed.contains("18"), "{changed}");
    }
}
