//! A type of this crate, as the table of routes names it.
//!
//! Only the OpenAPI document asks what a type looks like. It is made when the tests compare it with the one checked in, so that
//! nothing else builds or carries what describes types.

#[cfg(feature = "document")]
pub(crate) use utoipa::ToSchema as Described;
#[cfg(feature = "document")]
use utoipa::openapi::{Ref, RefOr, Schema};

/// Any type: without the document, nothing is asked of it.
#[cfg(not(feature = "document"))]
pub(crate) trait Described {}

#[cfg(not(feature = "document"))]
impl<T> Described for T {}

/// A type of this crate, for the document.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    #[cfg(feature = "document")]
    pub(crate) reference: fn() -> RefOr<Schema>,
    #[cfg(feature = "document")]
    pub(crate) collect: fn(&mut Vec<(String, RefOr<Schema>)>),
}

impl Shape {
    pub(crate) const fn of<T: Described>() -> Self {
        Self {
            #[cfg(feature = "document")]
            reference: reference::<T>,
            #[cfg(feature = "document")]
            collect: collect::<T>,
        }
    }
}

#[cfg(feature = "document")]
fn reference<T: Described>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}

#[cfg(feature = "document")]
fn collect<T: Described>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}
