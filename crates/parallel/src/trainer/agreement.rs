//! Whether ranks that must hold equal parameters do, bit by bit.

use comm::Communicator;
use device::Region;
use engine::{Axis, View};
use terms::{Collective, Dtype, Reduce};

use super::{Trainer, TrainerError, call};
use crate::units::Held;

/// Parameters that are compared at once: communicators of GPUs move only a few words of the host.
const AT_ONCE: usize = 64;

/// Equal parameters where replicas must hold equal ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Numbers compared.
    pub compared: u64,
    /// Numbers of parameters that differ between ranks.
    pub different: u64,
    /// The first parameter that differs.
    pub first: Option<String>,
}

impl Trainer {
    /// Compares the parameters that ranks hold in common: digests of all bits of each. Collective.
    ///
    /// # Errors
    /// What communication says.
    pub fn agreement(&mut self, _world: &mut dyn Communicator) -> Result<Agreement, TrainerError> {
        let mut agreement = Agreement::default();
        for axis in [Axis::Data, Axis::Tensor, Axis::Ends] {
            if self.groups.size(axis).is_some() {
                self.compare(axis, &mut agreement)?;
            }
        }
        Ok(agreement)
    }

    /// A digest of all bits of the parameters that this rank holds: of its shard, where they are sharded.
    ///
    /// # Errors
    /// What the device says.
    pub fn digest_of_parameters(&self) -> Result<u64, TrainerError> {
        let (mut all, store) = (0, &self.built.store);
        for (unit, storage) in store.units.iter().zip(&store.storage) {
            for held in &unit.held {
                if let Some(part) = held.part_of(storage.own, store.shard) {
                    all = terms::mix(all ^ self.digest(part)?);
                }
            }
        }
        Ok(all)
    }

    /// What ranks along an axis hold in common: name, numbers, digest.
    fn common(&self, axis: Axis) -> Result<Vec<(String, u64, u64)>, TrainerError> {
        let store = &self.built.store;
        let across = |held: &&Held, tied: bool| match axis {
            Axis::Tensor => held.whole(),
            Axis::Ends => tied,
            _ => true,
        };
        let mut common = Vec::new();
        for (unit, storage) in store.units.iter().zip(&store.storage) {
            // Sharded parameters are nobody else's.
            let Some(value) = storage.value else { continue };
            for held in unit.held.iter().filter(|held| across(held, unit.tied_across)) {
                let digest = self.digest(value.part(held.offset, held.len))?;
                common.push((held.parameter.name.clone(), held.len as u64, digest));
            }
        }
        // Both ends list their tied parameters in the order of their names.
        common.sort();
        Ok(common)
    }

    fn digest(&self, view: View) -> Result<u64, TrainerError> {
        let mut digest = 0;
        // SAFETY: no exchange is under way between steps.
        unsafe { self.loaded.read(view, &mut |bytes| digest = digest_of(bytes)) }?;
        Ok(digest)
    }

    fn compare(&mut self, axis: Axis, agreement: &mut Agreement) -> Result<(), TrainerError> {
        let common = self.common(axis)?;
        common.chunks(AT_ONCE).try_for_each(|common| self.compare_some(axis, common, agreement))
    }

    fn compare_some(
        &mut self,
        axis: Axis,
        common: &[(String, u64, u64)],
        agreement: &mut Agreement,
    ) -> Result<(), TrainerError> {
        let count = common.len();
        // The digests and their complements: the maximum of both is our own only if all are equal.
        let bytes = 16 * count;
        let region = Region::host(bytes).map_err(|source| TrainerError::Memory { bytes, source })?;
        // SAFETY: fresh memory of that size, which only this function uses but for the operation below.
        let words = unsafe { std::slice::from_raw_parts_mut(region.base().cast::<i64>(), 2 * count) };
        for (index, (_, _, digest)) in common.iter().enumerate() {
            words[index] = *digest as i64;
            words[count + index] = !(*digest as i64);
        }
        let whole = region.whole();
        let operation = call(Collective::AllReduce, Reduce::Max, Dtype::I64, &whole, &whole, 0);
        if let Some(group) = self.groups.get(axis) {
            group.run(&operation)?;
        }
        // SAFETY: as above; the operation is complete.
        let words = unsafe { std::slice::from_raw_parts(region.base().cast::<i64>(), 2 * count) };
        for (index, (name, len, digest)) in common.iter().enumerate() {
            agreement.compared += len;
            if words[index] != *digest as i64 || words[count + index] != !(*digest as i64) {
                agreement.different += len;
                agreement.first.get_or_insert_with(|| name.clone());
            }
        }
        Ok(())
    }
}

fn digest_of(bytes: &[u8]) -> u64 {
    let mut digest = bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        digest = terms::mix(digest ^ word);
    }
    for byte in chunks.remainder() {
        digest = terms::mix(digest ^ u64::from(*byte));
    }
    digest
}
