//! The errors of an operation, one response for each status. Those that several share are written once.

use crate::error::{ErrorBody, ErrorCode};
use crate::routes::Route;
use std::collections::BTreeMap;
use utoipa::ToSchema as _;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, HeaderBuilder, Ref, Response, ResponseBuilder};

/// The refusals of an operation: each with its status, and a name that is the same for the same codes.
pub(super) fn of(route: &Route) -> Vec<(u16, String, Response)> {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in route.errors() {
        by_status.entry(code.status()).or_default().push(ErrorCode::as_str(code));
    }
    let named =
        |(status, codes): (u16, Vec<&str>)| (status, format!("{status}.{}", codes.join(".")), response(status, &codes));
    by_status.into_iter().map(named).collect()
}

fn response(status: u16, codes: &[&str]) -> Response {
    let code = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes.iter().copied()));
    let error = ObjectBuilder::new().property("code", code);
    let body = AllOfBuilder::new()
        .item(Ref::from_schema_name(ErrorBody::name()))
        .item(ObjectBuilder::new().schema_type(Type::Object).property("error", error));
    let content = ContentBuilder::new().schema(Some(body)).build();
    let described = format!("Refused: `{}`", codes.join("`, `"));
    let mut response = ResponseBuilder::new().description(described).content("application/json", content);
    if status == 503 || status == 429 {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
        let header = HeaderBuilder::new().schema(Some(seconds)).description(Some(
            "After how many seconds it is worth trying again; absent where only a person can change it",
        ));
        response = response.header("Retry-After", header.build());
    }
    response.build()
}
