//! One operation of the document, from its row.

use super::refusals;
use crate::routes::{Accepts, Answer, Body, Callers, Content, Method, Param, Place, Role, Route};
use utoipa::PartialSchema as _;
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AdditionalProperties, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{
    ContentBuilder, HeaderBuilder, HttpMethod, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
};

pub(super) fn http_method(method: Method) -> HttpMethod {
    match method {
        Method::Get => HttpMethod::Get,
        Method::Put => HttpMethod::Put,
        Method::Post => HttpMethod::Post,
        Method::Delete => HttpMethod::Delete,
    }
}

pub(super) fn of(route: &Route) -> OperationBuilder {
    let about: Vec<&str> = route.about.iter().map(|line| line.trim()).collect();
    let mut operation = OperationBuilder::new()
        .tag(route.tag)
        .summary(Some(about.join("\n")))
        .description(Some(callers(route.callers)))
        .operation_id(Some(snake_case(&format!("{:?}", route.operation))))
        .request_body(body(&route.body));
    for param in route.params() {
        operation = operation.parameter(parameter(&param));
    }
    if route.callers == Callers::Anyone {
        operation = operation.security(SecurityRequirement::default());
    }
    for answer in route.answers {
        operation = operation.response(answer.status.to_string(), response(answer));
    }
    for (status, name, _) in refusals::of(route) {
        operation = operation.response(status.to_string(), Ref::from_response_name(&name));
    }
    operation
}

/// Who may call, for people.
fn callers(callers: Callers) -> String {
    let with = |roles: &[Role]| {
        let names: Vec<String> = roles.iter().map(|role| format!("`{}`", role.as_str())).collect();
        let names = match names.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => names.concat(),
        };
        format!("an operator with role {names}")
    };
    let who = match callers {
        Callers::Anyone => "anyone, unsigned".to_owned(),
        Callers::Metrics => format!("anyone on loopback; beyond it, {}", with(&[Role::Auditor])),
        Callers::Agent => "an active agent".to_owned(),
        Callers::Known => "an active agent or operator".to_owned(),
        Callers::AgentOr(roles) => format!("an active agent, about its own; {}", with(roles)),
        Callers::Operator(roles) => with(roles),
        Callers::Feed => {
            let (feeder, admin) = (with(&[Role::Feeder]), with(&[Role::Admin]));
            format!(
                "{feeder}; where the fact is an agent or an operator, or says what is approved of an MCP server, {admin}"
            )
        }
    };
    format!("Who may call it: {who}.")
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn body(body: &Body) -> Option<RequestBody> {
    let at_most = format!("at most {} bytes", body.bytes_max());
    let (about, content_type, schema) = match body {
        Body::None => return None,
        Body::Json { shape, .. } => {
            let empty = ObjectBuilder::new()
                .schema_type(Type::Object)
                .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)));
            let schema = shape.map_or_else(|| empty.into(), |shape| (shape.reference)());
            (format!("JSON of {at_most}"), "application/json", schema)
        }
        Body::Toml { .. } => {
            // Its limit is in bytes, which a schema cannot say.
            let text: RefOr<Schema> = ObjectBuilder::new().schema_type(Type::String).into();
            (format!("The pact's text, of {at_most}; text/plain is accepted too"), "application/toml", text)
        }
    };
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let body = RequestBodyBuilder::new().description(Some(about)).required(Some(Required::True));
    Some(body.content(content_type, content).build())
}

fn parameter(param: &Param) -> Parameter {
    let schema = match param.accepts {
        Accepts::Whole(min, max) => {
            let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                .minimum(Some(number(min)))
                .maximum(Some(number(max)))
        }
        Accepts::Matching(pattern, chars_max) => ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(pattern))
            .min_length(Some(1))
            .max_length(Some(chars_max)),
        Accepts::Text => ObjectBuilder::new().schema_type(Type::String),
        Accepts::Rest => ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)),
    };
    let place = match param.place {
        Place::Path => ParameterIn::Path,
        Place::Query => ParameterIn::Query,
        Place::Header => ParameterIn::Header,
    };
    ParameterBuilder::new()
        .name(param.name)
        .parameter_in(place)
        .required(if param.is_required { Required::True } else { Required::False })
        .description(Some(param.about))
        .schema(Some(schema))
        .example(param.example.map(Into::into))
        .build()
}

fn response(answer: &Answer) -> Response {
    let (content_type, schema) = match answer.content {
        Content::Json(shape) | Content::JsonOrEvents(shape) => ("application/json", (shape.reference)()),
        Content::OpenApi => ("application/json", ObjectBuilder::new().schema_type(Type::Object).into()),
        Content::Text => ("text/plain", String::schema()),
        Content::Bytes => ("application/octet-stream", Vec::<u8>::schema()),
    };
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let mut response = ResponseBuilder::new().description(answer.about).content(content_type, content);
    if let Content::JsonOrEvents(_) = answer.content {
        response = response.content("text/event-stream", ContentBuilder::new().schema(Some(String::schema())).build());
    }
    if answer.has_etag {
        let header = HeaderBuilder::new().schema(Some(String::schema())).description(Some("The version, in quotes"));
        response = response.header("ETag", header.build());
    }
    response.build()
}
