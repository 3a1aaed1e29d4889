//! Structs of which most fields are absent.

/// Declares a struct whose fields are left out of its JSON while they are `None`, and may be absent when it is read.
macro_rules! sparse_struct {
    ($(#[$meta:meta])* pub struct $type:ident { $($(#[$of_field:meta])* pub $field:ident: $option:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $type {
            $($(#[$of_field])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: $option,)*
        }
    };
}

pub(crate) use sparse_struct;
