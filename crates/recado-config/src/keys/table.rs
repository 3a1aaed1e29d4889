//! A section of the configuration as a table, one row a key.
//!
//! ```text
//! section! {
//!     /// The HTTP API.
//!     Server {
//!         /// Larger requests are refused.
//!         max_body: u64 = MIB, size(KIB..=GIB);
//!         /// Clients send it as `Authorization: Bearer …`.
//!         token: Secret, secret("${RECADO_TOKEN}");
//!     }
//! }
//! ```
//!
//! A row is the key with its documentation, its type, its default and its format (`format.rs`). A key without a
//! default is an `Option`. `field as "key": …` gives the field another name than the key. A row without a format is a
//! section whose keys stand in the same table: it keeps large structs apart.
//!
//! From the rows follow the struct, its reading with all checks ([`Section::read`]), and what `config show`, the commented
//! default file and the reference page print ([`Section::rows`]).
//!
//! # To add a key
//!
//! 1. Write its row in the section's table: `sections.rs`, `route.rs`, `provider.rs`, `channel.rs` or `alerts.rs`.
//! 2. Use it: `config.settings.<section>.<key>`.
//! 3. Write the generated files again: `cargo test -p recado-config committed` prints the commands.
//!
//! A check that concerns one value alone belongs to its format; one that compares keys goes to `resolve.rs` and reports
//! with `checker.fault("section.key", "…")`.

use crate::reading::checker::Checker;
use crate::reading::reader::Reader;

/// A table of keys.
pub trait Section: Sized {
    /// Documentation of the whole section.
    const ABOUT: &'static [&'static str];

    /// Reads every key; faulty ones are reported and count as absent.
    fn read(reader: &Reader<'_>) -> Self;

    /// Every key with its documentation and its value.
    fn rows(&self) -> Vec<Row>;
}

/// The section as it is when nothing is written.
pub fn defaults<S: Section>() -> S {
    S::read(&Reader::root(&Checker::default()))
}

/// One key of a section.
#[derive(Clone, Debug)]
pub struct Row {
    pub key: &'static str,
    pub doc: &'static [&'static str],
    /// The values that it takes, in words.
    pub allowed: String,
    /// A value as TOML, for the default file of a key without a default.
    pub example: Option<String>,
    /// The value as TOML, secrets hidden.
    pub value: Option<String>,
    /// The keys below it, when it is a table.
    pub rows: Vec<Row>,
}

macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident $(as $key:literal)? : $type:ty $(= $default:expr)? $(, $format:expr)?;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $(pub $field: $crate::keys::table::section!(@type $type, [$($default)?] [$($format)?]),)*
        }

        impl $crate::keys::table::Section for $name {
            const ABOUT: &'static [&'static str] = &[$($about),*];

            fn read(reader: &$crate::reading::reader::Reader<'_>) -> Self {
                $name {
                    $($field: $crate::keys::table::section!(
                        @read reader, $crate::keys::table::section!(@key $field $($key)?), $type, [$($default)?] [$($format)?]
                    ),)*
                }
            }

            fn rows(&self) -> Vec<$crate::keys::table::Row> {
                [$($crate::keys::table::section!(
                    @rows $crate::keys::table::section!(@key $field $($key)?), &[$($doc),*], self.$field,
                    [$($default)?] [$($format)?]
                )),*].concat()
            }
        }
    };

    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };

    (@type $type:ty, [$default:expr] [$format:expr]) => { $type };
    (@type $type:ty, [] [$format:expr]) => { Option<$type> };
    (@type $type:ty, [] []) => { $type };

    (@read $reader:ident, $key:expr, $type:ty, [$default:expr] [$format:expr]) => {
        $reader.get($key, |setting| $format.read(setting)).unwrap_or_else(|| $default)
    };
    (@read $reader:ident, $key:expr, $type:ty, [] [$format:expr]) => {
        $reader.get($key, |setting| $format.read(setting))
    };
    (@read $reader:ident, $key:expr, $type:ty, [] []) => { <$type as $crate::keys::table::Section>::read($reader) };

    (@rows $key:expr, $doc:expr, $value:expr, [$default:expr] [$format:expr]) => {
        vec![$format.row($key, $doc, Some(&$value))]
    };
    (@rows $key:expr, $doc:expr, $value:expr, [] [$format:expr]) => {
        vec![$format.row($key, $doc, $value.as_ref())]
    };
    (@rows $key:expr, $doc:expr, $value:expr, [] []) => { $crate::keys::table::Section::rows(&$value) };
}
pub(crate) use section;
