//! One table for an enum and its names.

/// Declares an enum whose variants have one name each, the same in JSON, in stores, in the API and in logs.
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$of_variant:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
        pub enum $type {
            $($(#[$of_variant])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }

            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some($type::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use named_enum;
