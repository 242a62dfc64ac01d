//! Whether pages of the documentation are those of the program.

mod documented;
mod reference;
