//! Implements a store's traits for a type around another store.

/// Implements a trait: the listed methods by asking the store within, the others as they are written.
///
/// A call that names its kind (`…, as KIND`) goes through the type's own `pass(KIND, answer)`.
#[macro_export]
macro_rules! delegate {
    (
        impl $(<$param:ident: $bound:ident>)? $trait:ident for $type:ty, to $within:tt {
            $(fn $at_once:ident($($arg:ident: $arg_type:ty),*) -> $value:ty;)*
            $(async fn $later:ident($($later_arg:ident: $later_type:ty),*) -> $answer:ty $(, as $kind:expr)?;)*
        }
        $($own:tt)*
    ) => {
        #[async_trait::async_trait]
        impl $(<$param: $bound>)? $trait for $type {
            $(fn $at_once(&self, $($arg: $arg_type),*) -> $value {
                self.$within.$at_once($($arg),*)
            })*
            $(async fn $later(&self, $($later_arg: $later_type),*) -> $crate::StoreResult<$answer> {
                $crate::delegate!(@ask self, self.$within.$later($($later_arg),*) $(, $kind)?).await
            })*
            $($own)*
        }
    };
    (@ask $self:ident, $answer:expr) => { $answer };
    (@ask $self:ident, $answer:expr, $kind:expr) => { $self.pass($kind, $answer) };
}
