//! Which cases measure the same workload. Scheduler and report both ask here, so they cannot disagree.

use std::collections::BTreeMap;

use serde_json::Value;
use terms::Role;

use crate::{About, Declared, Roles, SharedMap};

impl Roles for About {
    fn role(&self, field: &str) -> Role {
        self.all_fields().find(|known| known.is_called(field)).map_or(Role::Workload, |known| known.role)
    }

    fn owner(&self, field: &str) -> &str {
        self.all_fields().find(|known| known.is_called(field)).map_or("", |known| known.owner)
    }

    fn first_name<'n>(&'n self, field: &'n str) -> &'n str {
        self.all_fields().find(|known| known.is_called(field)).map_or(field, |known| known.first_name())
    }
}

impl Roles for Declared {
    fn role(&self, field: &str) -> Role {
        self.field(field).map_or(Role::Workload, |known| known.role)
    }

    fn owner(&self, field: &str) -> &str {
        self.field(field).map_or("", |known| known.owner.as_str())
    }

    fn first_name<'n>(&'n self, field: &'n str) -> &'n str {
        self.field(field).and_then(|known| known.was.first()).map_or(field, String::as_str)
    }
}

/// The parameters in which cases must agree to be implementations of one workload, by their first names.
pub fn workload<'p>(parameters: &'p SharedMap, roles: &'p impl Roles) -> BTreeMap<&'p str, &'p Value> {
    let own = parameters.iter().filter(|(name, _)| roles.role(name).defines_workload());
    own.map(|(name, value)| (roles.first_name(name), value)).collect()
}

/// The parameter with the faults that were injected into a case. A fault is part of what a case is; without it, cases show
/// what the fault did.
pub const INJECTED: &str = "inject";

/// The parameters in which two cases of one workload differ, with both values. Parameters of the workload, options that only
/// one backend understands, and those in `apart` are left out.
pub fn differences<'p>(
    [a, b]: [&'p SharedMap; 2],
    roles: &impl Roles,
    apart: &[&str],
) -> Vec<(&'p str, [Option<&'p Value>; 2])> {
    let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(name)));
    let is_how =
        |name: &&str| !apart.contains(name) && !roles.role(name).defines_workload() && roles.owner(name).is_empty();
    let both = names.filter(is_how).map(|name| (name, [a.get(name), b.get(name)]));
    both.filter(|(_, [a, b])| a != b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::{Field, Kind};

    const FIELDS: &[Field] = &[
        Field::new(Kind::Text, None, "").named("op"),
        Field::new(Kind::Whole(1, 8), None, "").named("ranks").role(Role::World),
        Field::new(Kind::Text, None, "").named("backend").role(Role::Launch),
        Field::new(Kind::Text, None, "").named("bind").role(Role::Launch),
        Field::new(Kind::Bool, None, "").named("tuned").role(Role::Launch).owner("mpi"),
        Field::new(Kind::Text, None, "").named("buffers").role(Role::Implementation),
    ];
    static ABOUT: About = About {
        name: "x",
        doc: "",
        fields: &[|| FIELDS],
        metrics: &[],
        check: |_| Ok(()),
        command: None,
        show: crate::show::Show::default,
    };

    fn parameters(text: &str) -> SharedMap {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_workload_is_what_is_measured_and_under_which_conditions() {
        let shm = parameters(r#"{"op": "a", "ranks": 2, "backend": "shm", "buffers": "registered"}"#);
        let mpi = parameters(r#"{"ranks": 2, "op": "a", "backend": "mpi", "bind": "core", "tuned": true}"#);
        assert_eq!(workload(&shm, &ABOUT), workload(&mpi, &ABOUT));
        let declared = Declared::of(&ABOUT);
        assert_eq!(workload(&shm, &declared), workload(&shm, &ABOUT), "the copy in a record says the same");
        for other in
            [r#"{"op": "b", "ranks": 2}"#, r#"{"op": "a", "ranks": 3}"#, r#"{"op": "a", "ranks": 2, "new": 1}"#]
        {
            assert_ne!(workload(&parameters(other), &ABOUT), workload(&shm, &ABOUT), "{other}");
        }
        let differ: Vec<&str> =
            differences([&shm, &mpi], &ABOUT, &["backend"]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(differ, ["buffers", "bind"], "not what the other backend has no word for");
    }
}
