//! Tools from an `OpenAPI` 3.0 or 3.1 document: each operation is one.
//!
//! Read are paths, methods, names, the places of parameters and the media types of bodies. Of schemas only what the arguments
//! may be is read, for checks of a policy: every argument of a call is judged, described or not. References are followed within
//! the document alone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::{HeaderName, Method};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::schema::example;
use super::tools::{METHODS, Place, is_template};
use crate::names::ToolName;
use crate::settings::{BodyKind, Closed, HttpTool};
use crate::source::{self, Field, Problems, Reader, Spot, did_you_mean};
use crate::store::definitions::hash_of;

/// Most references in a row.
const MOST_REFERENCES: usize = 16;

/// A tool with its place in the document.
pub(super) struct Operation {
    pub(super) tool: HttpTool,
    pub(super) spot: Spot,
}

/// What a document describes.
#[derive(Default)]
pub(super) struct Described {
    pub(super) operations: Vec<Operation>,
    /// Operations that are not chosen.
    pub(super) closed: Vec<Closed>,
}

/// Which operations are tools.
enum Choice<'r> {
    All,
    Only(Vec<Field<'r>>),
    Except(Vec<Field<'r>>),
}

impl Choice<'_> {
    fn takes(&self, name: &str) -> bool {
        let has = |names: &[Field<'_>]| names.iter().any(|n| n.node().as_text() == Some(name));
        match self {
            Self::All => true,
            Self::Only(names) => has(names),
            Self::Except(names) => !has(names),
        }
    }
}

/// The operations of the document that `openapi` names.
pub(super) fn operations(field: &Field<'_>, place: Place<'_>) -> Option<Described> {
    let (file, choice) = if field.is_map() {
        let mut fields = field.map()?;
        let file = fields.required("file");
        let (only, except) = (fields.optional("only"), fields.optional("except"));
        let choice = match (&only, &except) {
            (Some(_), Some(except)) => {
                except.error(
                    "`only` and `except` exclude each other",
                    "keep one of them: name the operations that are tools, or those that are not",
                );
                return None;
            }
            (Some(names), None) => Choice::Only(named(names)?),
            (None, Some(names)) => Choice::Except(named(names)?),
            (None, None) => Choice::All,
        };
        (file?, choice)
    } else {
        (field.clone(), Choice::All)
    };
    let path = place.folder.join(file.text()?);
    let tree = source::read_document(&path)
        .map_err(|problems| report(&file, problems))
        .ok()?;
    let reader = Reader::new();
    let root = reader.root(&tree);
    let mut document = Document {
        root: root.clone(),
        choice: &choice,
        place,
        names: HashMap::new(),
        passed_over: HashSet::new(),
        closed: Vec::new(),
    };
    let operations = document.operations();
    let Document {
        names,
        passed_over,
        closed,
        ..
    } = document;
    match reader.finish_with_warnings(operations) {
        Ok((operations, warnings)) => {
            report(&file, warnings);
            let known = names.keys().chain(&passed_over).map(String::as_str);
            let known: Vec<_> = known.collect();
            let known = are_known(&choice, &known);
            if operations.is_empty() && known {
                file.error(
                    "no operation of the document is left as a tool",
                    "check `only` and `except`, or that it is the right document",
                );
            }
            (known && !operations.is_empty()).then_some(Described { operations, closed })
        }
        Err(problems) => {
            report(&file, problems);
            None
        }
    }
}

fn named<'r>(field: &Field<'r>) -> Option<Vec<Field<'r>>> {
    let names = field.filled_list()?;
    let texts = names.iter().map(Field::text);
    texts.collect::<Option<Vec<_>>>()?;
    Some(names)
}

fn are_known(choice: &Choice<'_>, known: &[&str]) -> bool {
    let names = match choice {
        Choice::All => return true,
        Choice::Only(names) | Choice::Except(names) => names,
    };
    let unknown = names.iter().filter(|name| {
        let text = name.node().as_text().unwrap_or_default();
        let missing = !known.contains(&text);
        if missing {
            name.error(
                format!("the document has no operation `{text}`"),
                did_you_mean("operations", text, known.iter().copied()),
            );
        }
        missing
    });
    unknown.count() == 0
}

/// Problems of the document, among those of the config; one without a place stands where the config names the file.
fn report(file: &Field<'_>, problems: Problems) {
    for problem in problems.0 {
        let placed = problem.at.is_some();
        file.report(if placed {
            problem
        } else {
            problem.at(file.spot())
        });
    }
}

struct Document<'r, 'c> {
    root: Field<'r>,
    choice: &'c Choice<'c>,
    place: Place<'c>,
    /// Operations that are tools, by name.
    names: HashMap<String, Spot>,
    /// Names of those that are not.
    passed_over: HashSet<String>,
    /// Where they are.
    closed: Vec<Closed>,
}

impl<'r> Document<'r, '_> {
    fn operations(&mut self) -> Option<Vec<Operation>> {
        self.version()?;
        let base = self.base()?;
        let Some(paths) = self.root.peek("paths") else {
            self.root.error(
                "the document describes no paths",
                "is it the right document? `paths` is missing",
            );
            return None;
        };
        let mut operations = Vec::new();
        for (key, item) in paths.entries()? {
            if key.text().starts_with("x-") {
                continue;
            }
            let Some(item) = self.resolved(item) else {
                continue;
            };
            let path = format!("{base}{}", key.text());
            let mut misshapen = false;
            for (word, method) in METHODS {
                let Some(operation) = item.peek(&word.to_ascii_lowercase()) else {
                    continue;
                };
                let Some(name) = self.name(&operation, &method, key.text()) else {
                    let path = path.clone();
                    self.closed.push(Closed { method, path });
                    continue;
                };
                if !is_template(&path) && !misshapen {
                    misshapen = true;
                    key.error(
                        format!(
                            "`{}` is not a path that can be mapped to a tool",
                            key.text()
                        ),
                        "a parameter is a whole segment; or leave its operations out by `except`",
                    );
                }
                let tool = HttpTool {
                    headers: self.headers(&item, &operation),
                    bodies: self.bodies(&operation),
                    definition: self.definition(key.text(), &item, &operation),
                    example: example(&self.root, &item, &operation),
                    ..HttpTool::new(Some(ToolName::from(name)), method, path.as_str())
                };
                for own in [&item, &operation]
                    .into_iter()
                    .filter_map(|at| at.peek("servers"))
                {
                    own.warn(
                        "`servers` of a single path or operation is not read",
                        "calls go to the route's upstream; map it on a route of its own if that is another",
                    );
                }
                operations.push(Operation {
                    tool,
                    spot: operation
                        .peek("operationId")
                        .map_or_else(|| key.spot(), |id| id.spot()),
                });
            }
        }
        Some(operations)
    }

    fn version(&self) -> Option<()> {
        if let Some(swagger) = self.root.peek("swagger") {
            swagger.error(
                "this is a Swagger 2.0 document",
                "convert it to OpenAPI 3, or write the tools out in `tools`",
            );
            return None;
        }
        let Some(version) = self.root.peek("openapi") else {
            self.root.error(
                "this is no OpenAPI document: `openapi` is missing",
                "name a document of OpenAPI 3.0 or 3.1",
            );
            return None;
        };
        let text = version.node().source().trim_matches(['"', '\'']);
        if ["3.0", "3.1"].iter().any(|known| {
            text.strip_prefix(known)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }) {
            return Some(());
        }
        version.error(
            format!("OpenAPI {text} is not read"),
            "name a document of OpenAPI 3.0 or 3.1",
        );
        None
    }

    /// The path of the first server, where it is relative: agents put it before every path. An absolute one is what the
    /// upstream's URL stands for.
    fn base(&self) -> Option<String> {
        let servers = self.root.peek("servers");
        let first = servers.and_then(|servers| servers.list()?.into_iter().next());
        let Some(url) = first.and_then(|server| server.peek("url")) else {
            return Some(String::new());
        };
        let text = url.text()?;
        if text.contains("://") {
            return Some(String::new());
        }
        let path = text.trim_end_matches('/');
        if path.is_empty() || (is_template(path) && !path.contains('{')) {
            return Some(path.to_owned());
        }
        url.error(
            format!("`{text}` is not a base that can be put before paths"),
            "write an absolute URL, or a plain path such as `/v1`",
        );
        None
    }

    /// Hash of what the document says of an operation: path, parameters and the operation itself. Where it refers to other
    /// parts all of `components` belong to it.
    fn definition(&self, path: &str, item: &Field<'r>, operation: &Field<'r>) -> Option<Arc<str>> {
        let parameters = item.peek("parameters").map(|field| field.json());
        let mut whole = json!({
            "path": path,
            "parameters": parameters,
            "operation": operation.json(),
        });
        if whole.to_string().contains("\"$ref\"")
            && let (Some(whole), Some(components)) =
                (whole.as_object_mut(), self.root.peek("components"))
        {
            whole.insert("components".to_owned(), components.json());
        }
        hash_of(&whole)
    }

    /// The name of an operation that is to be a tool.
    fn name(&mut self, operation: &Field<'r>, method: &Method, path: &str) -> Option<String> {
        let id = operation.peek("operationId");
        let name = match &id {
            Some(id) => id.text()?.to_owned(),
            None => derived(method, path),
        };
        if !self.choice.takes(&name) {
            self.passed_over.insert(name);
            return None;
        }
        let at = id.as_ref().unwrap_or(operation);
        if name.contains(['*', ' ']) {
            at.error(
                format!("`{name}` is not the name of one tool"),
                "use an operationId without stars and blanks",
            );
        }
        if let Some(first) = self.names.insert(name.clone(), at.spot()) {
            let problem = at
                .problem(format!("two operations are named `{name}`"))
                .help("give each an operationId of its own");
            at.report(problem.related(first.1, "first here"));
        }
        Some(name)
    }

    /// Headers that are arguments: those that the parameters name, and all cookies as one.
    fn headers(&self, item: &Field<'r>, operation: &Field<'r>) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let lists = [item, operation].into_iter().filter_map(|at| {
            let parameters = at.peek("parameters")?;
            parameters.list()
        });
        for parameter in lists.flatten().filter_map(|entry| self.resolved(entry)) {
            let Some(header) = header(&parameter, self.place) else {
                continue;
            };
            if !found.iter().any(|known| known.eq_ignore_ascii_case(header)) {
                found.push(header.to_owned());
            }
        }
        found
    }

    fn bodies(&self, operation: &Field<'r>) -> Vec<BodyKind> {
        let body = operation.peek("requestBody");
        let body = body.and_then(|body| self.resolved(body));
        // Nothing said is nothing closed: every argument is judged.
        let Some(content) = body.and_then(|body| body.peek("content")) else {
            return BodyKind::ALL.to_vec();
        };
        let types = content.keys().unwrap_or_default();
        let kinds: Vec<_> = BodyKind::ALL
            .into_iter()
            .filter(|kind| types.iter().any(|named| covers(named, *kind)))
            .collect();
        if kinds.is_empty() {
            content.warn(
                "no media type of this body is read: calls with a body are refused",
                "read are JSON, `application/x-www-form-urlencoded` and `multipart/form-data`",
            );
        }
        kinds
    }

    /// What a reference leads to, within the document.
    fn resolved(&self, from: Field<'r>) -> Option<Field<'r>> {
        let mut field = from;
        for _ in 0..MOST_REFERENCES {
            let Some(reference) = field.peek("$ref") else {
                return Some(field);
            };
            let text = reference.text()?;
            let Some(pointer) = text.strip_prefix("#/") else {
                reference.error(
                    format!("`{text}` leads out of the document"),
                    "bundle the document into one file: no other is read, and nothing is fetched",
                );
                return None;
            };
            let Some(target) = self.at(pointer) else {
                reference.error(
                    format!("`{text}` leads nowhere"),
                    "mend the reference; parts stand under `#/components`",
                );
                return None;
            };
            field = target;
        }
        field.error(
            "this reference leads in a circle",
            "write the part out where it is needed",
        );
        None
    }

    fn at(&self, pointer: &str) -> Option<Field<'r>> {
        pointer.split('/').try_fold(self.root.clone(), |at, step| {
            let step = percent_decode_str(step).decode_utf8().ok()?;
            let step = step.replace("~1", "/").replace("~0", "~");
            at.peek(&step)
        })
    }
}

/// The header in which a parameter comes.
fn header<'r>(parameter: &Field<'r>, place: Place<'_>) -> Option<&'r str> {
    let known = [
        ("path", false),
        ("query", false),
        ("header", true),
        ("cookie", true),
    ];
    let Some(stands) = parameter.peek("in") else {
        parameter.error(
            "the parameter does not say where it is",
            "add `in: path`, `query`, `header` or `cookie`",
        );
        return None;
    };
    if !stands.choice(&known)? {
        return None;
    }
    if stands.node().as_text() == Some("cookie") {
        return Some("Cookie");
    }
    let name = parameter.peek("name")?;
    let text = name.text()?;
    if HeaderName::from_bytes(text.as_bytes()).is_err() {
        name.error(
            format!("`{text}` is not the name of a header"),
            "mend the document",
        );
        return None;
    }
    // The specification says of the first three that such a parameter is to be ignored.
    let ignored = ["accept", "content-type", "authorization", "idempotency-key"];
    if ignored.iter().any(|known| known.eq_ignore_ascii_case(text)) {
        return None;
    }
    if !place.may_be_argument(text) {
        name.warn(
            format!("the header `{text}` never reaches the upstream"),
            "the proxy sets it, drops it, or reads it itself",
        );
        return None;
    }
    Some(text)
}

fn covers(media_type: &str, kind: BodyKind) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let any = match kind {
        BodyKind::Json | BodyKind::Form => "application/*",
        BodyKind::Multipart => "multipart/*",
    };
    essence == kind.media_type()
        || essence == "*/*"
        || essence == any
        || (kind == BodyKind::Json && essence.ends_with("+json"))
}

/// `get_orders_order_id` for `GET /orders/{order_id}`.
fn derived(method: &Method, path: &str) -> String {
    let mut name = method.as_str().to_ascii_lowercase();
    let words = path.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    for word in words.filter(|word| !word.is_empty()) {
        name.push('_');
        name.push_str(word);
    }
    name
}
