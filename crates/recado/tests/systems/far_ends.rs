//! The providers of the test kit, each as a far end with a record, and open to orders.

pub mod collector;
pub mod mail;
pub mod receiver;

pub use recado_testkit::far_end::FarEnd;
pub use recado_testkit::http::{Act, Request, json, page};

macro_rules! far_ends {
    ($($name:ident),*) => {$(
        pub mod $name {
            pub use recado_testkit::providers::$name::*;

            use super::FarEnd;

            pub fn start() -> FarEnd {
                FarEnd::start(manners)
            }

            pub fn provider(far_end: &FarEnd) -> String {
                recado_testkit::providers::$name::provider(&far_end.url())
            }
        }
    )*};
}

far_ends!(evolution, graph, openai, ses, tiktok, tiss, youtube);
