//! Words for alerts: how urgent one is, and the unit of its figures.

use super::named_enum::named_enum;

named_enum! {
    pub enum Severity {
        /// For the next working hour.
        Warning = "warning",
        /// For now.
        Critical = "critical",
    }
}

named_enum! {
    /// Unit of a figure, which says how to write it.
    pub enum Unit {
        /// From 0 to 1.
        Share = "share",
        Count = "count",
        Time = "seconds",
        /// A multiple of the usual value.
        Times = "times",
        /// It is so or it is not.
        Fact = "fact",
    }
}
