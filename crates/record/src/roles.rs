//! What is asked of the declaration of a benchmark's fields, whichever it is.

use terms::Role;

/// Who knows the roles of a benchmark's fields: its declaration in the program, or the copy in a record.
pub trait Roles {
    /// The role of a field; of one that nobody declared it is [`Role::Workload`], so that nothing is compared by mistake.
    fn role(&self, field: &str) -> Role;
    /// The backend or runtime that alone understands it; empty where all do.
    fn owner(&self, field: &str) -> &str;
    /// The first name of a field that was renamed, else this one: the name that records of all versions have in common.
    fn first_name<'n>(&'n self, field: &'n str) -> &'n str;
}

/// Where there is no declaration, every field belongs to the workload, so that nothing is compared by mistake.
impl<R: Roles> Roles for Option<&R> {
    fn role(&self, field: &str) -> Role {
        self.map_or(Role::Workload, |roles| roles.role(field))
    }

    fn owner(&self, field: &str) -> &str {
        self.map_or("", |roles| roles.owner(field))
    }

    fn first_name<'n>(&'n self, field: &'n str) -> &'n str {
        self.map_or(field, |roles| roles.first_name(field))
    }
}
