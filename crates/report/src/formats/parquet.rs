//! `cases.parquet`: the rows and columns of `cases.csv` with types, for tools that read tables by column.
//!
//! Numbers are INT64 or DOUBLE, switches BOOLEAN, everything else UTF-8 text; what is missing in a case is null. Text stays as it
//! is: nothing takes a cell of Parquet for a formula. Rows go out in groups, so memory does not grow with them.
//!
//! Rejected: the crate `parquet`, which takes 44 s of processor time to build. Here it only reads, in tests.

mod column;
mod file;
mod thrift;

use std::io::{self, Write};
use std::path::Path;

use column::{ColumnType, ParquetCell, ValueKinds};
use file::File;
use record::file::FileName;

use crate::formats::rows::Columns;
use crate::formats::write::Out;
use crate::{Artifact, Error, Format, Run, error};

const FILE: &str = "cases.parquet";

/// Rows of one group: few enough to hold, and enough to read fast.
const GROUP: usize = 10_000;

/// The Parquet export.
#[derive(Debug)]
pub(crate) struct Parquet;

impl Format for Parquet {
    fn about(&self) -> (&'static str, &'static str) {
        ("parquet", "cases.parquet: the rows and columns of cases.csv, typed")
    }

    fn by_default(&self) -> bool {
        false
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        let mut content = Vec::new();
        write(run, &mut content).map_err(|error| error::unwritten(Path::new(FILE), &error))?;
        Ok(vec![Artifact::new(FILE, content)])
    }

    fn write(&self, run: &Run, out: &mut Out<'_>) -> Result<(), Error> {
        out.file(&FileName::literal(FILE).into(), |to| write(run, to))
    }
}

/// Goes over the cases twice, first for the columns and their types.
fn write(run: &Run, to: &mut dyn Write) -> io::Result<()> {
    let mut columns = Columns::<ValueKinds>::from_run(run, ValueKinds::note);
    let kinds: Vec<ColumnType> = columns.noted().iter().map(ValueKinds::kind).collect();
    let names = columns.names().to_vec();
    let mut file = File::begin(to, &names, &kinds)?;
    for cases in run.cases.chunks(GROUP) {
        let mut held: Vec<Vec<ParquetCell>> = kinds.iter().map(|_| vec![ParquetCell::Null; cases.len()]).collect();
        for (row, case) in cases.iter().enumerate() {
            columns.each(case, &mut |place, value| held[place][row] = kinds[place].cell(value));
        }
        file.group(&held)?;
    }
    file.end()
}
