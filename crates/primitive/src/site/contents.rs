//! What a case's buffers hold: filled before calls, and compared with what must stand in them.

use device::Slice;
use measure::{Failure, WrongReport};
use terms::Dtype;

use super::{GivenBuffers, Left, Site};
use crate::machine::Machine;
use crate::pattern::{Comparison, Picture};
use crate::task::{Scheme, Task};

impl Site {
    /// Fresh operands; results of before are overwritten.
    pub(crate) fn refill(&mut self, given: GivenBuffers) {
        self.pattern.displace();
        if let Some(attention) = &mut self.attention {
            attention.displace();
        }
        if let Some(oracle) = &mut self.oracle {
            oracle.displace();
        }
        for buffer in [&self.wide, &self.block, &self.output] {
            match &self.machine {
                Machine::Gpu(gpu) => gpu.note(gpu.forget(buffer)),
                // SAFETY: the slice lies inside this rank's region, and no operation is in flight.
                Machine::Host(_) => unsafe { std::ptr::write_bytes(buffer.ptr(), 0xA5, buffer.len()) },
            }
        }
        self.fill_operands();
        match given {
            GivenBuffers::Operands => {}
            GivenBuffers::Products => self.fill_products(),
            GivenBuffers::Gathered => self.fill_gathered(),
        }
    }

    /// Writes a matrix where it lies.
    fn fill(&self, to: &Slice, dtype: Dtype, picture: &Picture<'_>) {
        match &self.machine {
            Machine::Host(_) => picture.fill(to, dtype),
            Machine::Gpu(gpu) => gpu.note(gpu.fill(to, dtype, picture)),
        }
    }

    /// Writes to a buffer by code for memory of the host.
    fn written(&self, to: &Slice, work: impl FnOnce(&Slice)) {
        match &self.machine {
            Machine::Host(_) => work(to),
            Machine::Gpu(gpu) => gpu.note(gpu.mirrored(to, true, work)),
        }
    }

    /// Reads a buffer by code for memory of the host.
    fn seen(&self, at: &Slice, work: impl FnOnce(&Slice)) -> Result<(), Failure> {
        match &self.machine {
            Machine::Host(_) => {
                work(at);
                Ok(())
            }
            Machine::Gpu(gpu) => gpu.mirrored(at, false, work),
        }
    }

    fn fill_operands(&self) {
        let Task { dtype, rank, n, .. } = self.task;
        if let Some(attention) = &self.attention {
            self.written(&self.own, |own| attention.fill_panel(own));
            return self.written(&self.other, |queries| attention.fill_queries(queries));
        }
        if let Some(oracle) = &self.oracle {
            self.written(&self.own, |own| oracle.fill_tokens(own));
            return self.written(&self.other, |experts| oracle.fill_experts(experts));
        }
        let (depth, begin) = (self.task.depth(), self.task.depth_begin(rank));
        let expert = self.own_columns();
        let is_transposed = self.machine.gpu().is_some_and(|gpu| gpu.arithmetic().needs().1);
        let columns = match is_transposed {
            true => self.pattern.columns_transposed(begin, depth, n, expert),
            false => self.pattern.columns(begin, depth, n, expert),
        };
        self.fill(&self.other, dtype, &columns);
        // Last, what is different each time: a call that does not wait for it shows.
        self.fill(&self.own, dtype, &self.pattern.rows(self.own_rows(), begin, depth));
    }

    /// The rows of A that this rank has.
    fn own_rows(&self) -> std::ops::Range<usize> {
        if self.task.is_summed() {
            return 0..self.task.m;
        }
        self.task.rank * self.task.rows()..(self.task.rank + 1) * self.task.rows()
    }

    /// The number that displaces the columns of this rank's B: that of its expert, or of its part of a sum.
    fn own_columns(&self) -> usize {
        if self.task.scheme == Scheme::Exchange || self.task.is_summed() { self.task.rank } else { 0 }
    }

    /// The rows of the result that this rank has.
    fn result_rows(&self) -> std::ops::Range<usize> {
        match self.task.scheme {
            Scheme::ScatterLast | Scheme::Exchange => {
                self.task.rank * self.task.rows()..(self.task.rank + 1) * self.task.rows()
            }
            _ => 0..self.task.m,
        }
    }

    /// The rows that this rank gets as an expert, as they arrive.
    fn received_rows(&self) -> impl Iterator<Item = usize> + use<> {
        let (rows, rank, routing) = (self.task.rows(), self.task.rank, self.task.routing.clone());
        let (ranks, chunks) = (self.task.ranks, self.chunks);
        let parts = (0..chunks).flat_map(move |chunk| (0..ranks).map(move |from| (chunk, from)));
        parts.flat_map(move |(chunk, from)| {
            routing.places_of_chunk(from, rank, (chunk, chunks)).map(move |token| from * rows + token)
        })
    }

    /// The expert of each of this rank's tokens, which lie sorted.
    fn expert_of(&self, row: usize) -> usize {
        self.task.routing.expert(self.task.rank, row - self.task.rank * self.task.rows())
    }

    /// Where this rank's own products stand, and the rows that they are of.
    fn products(&self) -> (Slice, Vec<usize>) {
        let Task { n, rank, .. } = self.task;
        let rows = self.task.rows();
        match self.task.scheme {
            Scheme::GatherFirst => (self.output.clone(), (0..self.task.m).collect()),
            Scheme::GatherLast => {
                let size = self.task.result().bytes() as usize;
                let own = self.output.slice(rank * rows * n * size, rows * n * size);
                (own.expect("a part lies inside its buffer"), self.own_rows().collect())
            }
            Scheme::Exchange => (self.part(&self.block, 0, self.received() * n), self.received_rows().collect()),
            _ => (self.wide.clone(), (0..self.task.m).collect()),
        }
    }

    fn fill_products(&self) {
        let (at, rows) = self.products();
        if let Some(oracle) = &self.oracle {
            return self.written(&at, |at| oracle.fill_products(at));
        }
        let expert = self.own_columns();
        let rows = rows.into_iter().map(|row| (row, expert));
        self.fill(&at, self.task.result(), &self.pattern.product(rows, self.task.n, (1, &self.tables[1])));
    }

    /// The part of `wide` that holds the others' operands, and the rows that they are of.
    fn gathered(&self) -> (Slice, Vec<usize>) {
        match self.task.scheme {
            Scheme::Exchange => {
                (self.part(&self.wide, 0, self.received() * self.task.k), self.received_rows().collect())
            }
            _ => (self.wide.clone(), (0..self.task.m).collect()),
        }
    }

    fn fill_gathered(&self) {
        if let Some(attention) = &self.attention {
            return self.written(&self.wide, |wide| attention.fill_gathered(wide));
        }
        let (at, rows) = self.gathered();
        if let Some(oracle) = &self.oracle {
            return self.written(&at, |at| oracle.fill_gathered(at));
        }
        // Where products are gathered, scattered or reduced, no operands are.
        if matches!(self.task.scheme, Scheme::GatherFirst | Scheme::Exchange) {
            self.fill(&at, self.task.dtype, &self.pattern.rows(rows.into_iter(), 0, self.task.k));
        }
    }

    /// Compares every element of what a call must have left.
    ///
    /// # Errors
    /// What a GPU says, of filling the buffers, too.
    pub(crate) fn compare(&self, left: Left, report: &mut WrongReport) -> Result<(), Failure> {
        if let Machine::Gpu(gpu) = &self.machine {
            gpu.checked()?;
        }
        let mut found = Comparison { rank: self.reporter, report };
        if let Some(attention) = &self.attention {
            return match left {
                Left::Result | Left::Products => {
                    self.seen(&self.output, |output| attention.compare(output, &mut found))
                }
                Left::Gathered => self.seen(&self.wide, |wide| attention.compare_gathered(wide, &mut found)),
            };
        }
        if let Some(oracle) = &self.oracle {
            return match left {
                Left::Gathered => self.seen(&self.gathered().0, |at| oracle.compare_gathered(at, &mut found)),
                Left::Products => self.seen(&self.products().0, |at| oracle.compare_products(at, &mut found)),
                Left::Result => self.seen(&self.output, |at| oracle.compare_result(at, &mut found)),
            };
        }
        let (at, dtype, picture, tolerance) = self.expected(left);
        match &self.machine {
            Machine::Host(_) => picture.compare(&at, dtype, tolerance, &mut found),
            Machine::Gpu(gpu) => gpu.compare((&at, dtype), &picture, tolerance, &mut found)?,
        }
        Ok(())
    }

    /// What must stand where: the type, the matrix, and how far its elements may be off.
    fn expected(&self, left: Left) -> (Slice, Dtype, Picture<'_>, f64) {
        let Task { dtype, n, .. } = self.task;
        let exchanges = self.task.scheme == Scheme::Exchange;
        match left {
            Left::Gathered => {
                let (at, rows) = self.gathered();
                (at, dtype, self.pattern.rows(rows.into_iter(), 0, self.task.k), 0.0)
            }
            Left::Products => {
                let (at, rows) = self.products();
                let expert = self.own_columns();
                let rows = rows.into_iter().map(|row| (row, expert));
                let picture = self.pattern.product(rows, n, (1, &self.tables[1]));
                (at, self.task.result(), picture, self.tolerances[1])
            }
            Left::Result => {
                let rows = self.result_rows().map(|row| (row, if exchanges { self.expert_of(row) } else { 0 }));
                let picture = self.pattern.product(rows, n, (0, &self.tables[0]));
                (self.output.clone(), self.task.result(), picture, self.tolerances[0])
            }
        }
    }
}
