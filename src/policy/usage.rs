//! Whether a look-up fits the rule that uses it: what it asks for is bound, and what it gives can be read.

use regex::Regex;

use super::Lookup;
use crate::store::sql::Described;

/// Parameters that every look-up gets.
pub(crate) const ALWAYS_BOUND: [&str; 2] = ["principal", "tenant"];

/// The column of the owner, and that of the tenant.
const OWNER: &str = "owner";
const TENANT: &str = "tenant";

/// Which columns say what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The owner's.
    pub(crate) owner: usize,
    /// The tenant's.
    pub(crate) tenant: Option<usize>,
    /// What the database took each parameter for.
    pub(crate) echo: Vec<(String, usize)>,
}

/// Why a rule cannot use a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// The parameter that is bound in vain; `None`: the look-up itself is wrong.
    pub(crate) vain: Option<String>,
    pub(crate) message: String,
    pub(crate) help: String,
}

fn misfit(message: impl Into<String>, help: impl Into<String>) -> Misfit {
    Misfit {
        vain: None,
        message: message.into(),
        help: help.into(),
    }
}

/// `binds` are the parameters that arguments fill; each must be asked for, and nothing else but what is always bound.
pub(crate) fn parameters_fit(name: &str, asked: &[String], binds: &[&str]) -> Result<(), Misfit> {
    let known =
        |name: &&String| ALWAYS_BOUND.contains(&name.as_str()) || binds.contains(&name.as_str());
    if let Some(unbound) = asked.iter().find(|name| !known(name)) {
        let help = if binds.is_empty() {
            "a look-up of allowed values knows `:principal` and `:tenant` only".to_owned()
        } else {
            format!("write `as: {unbound}` or a `with` of that name, or change the look-up")
        };
        return Err(misfit(
            format!("the look-up `{name}` asks for `:{unbound}`, which is not bound here"),
            help,
        ));
    }
    if let Some(vain) = binds
        .iter()
        .find(|bind| !asked.iter().any(|name| name == *bind))
    {
        return Err(Misfit {
            vain: Some((*vain).to_owned()),
            message: format!("the look-up `{name}` does not ask for `:{vain}`"),
            help: format!("it must name the resource, such as `WHERE id = :{vain}`"),
        });
    }
    Ok(())
}

/// One column of values.
pub(crate) fn values_fit(name: &str, described: &Described) -> Result<(), Misfit> {
    parameters_fit(name, &described.parameters, &[])?;
    if described.columns.len() == 1 {
        return Ok(());
    }
    Err(misfit(
        format!(
            "the look-up `{name}` returns {} columns, and a list of allowed values has one",
            described.columns.len()
        ),
        "select the values alone",
    ))
}

/// The columns of a look-up that tells an owner.
pub(crate) fn owner_fits(
    name: &str,
    sql: &str,
    described: &Described,
    binds: &[&str],
) -> Result<Shape, Misfit> {
    parameters_fit(name, &described.parameters, binds)?;
    let at = |wanted: &str| described.columns.iter().position(|column| column == wanted);
    let mut echo = Vec::with_capacity(binds.len());
    for bind in binds {
        let Some(index) = at(bind) else {
            return Err(misfit(
                format!(
                    "the look-up `{name}` has no column `{bind}`: what the database takes for an id may be another one to the backend"
                ),
                format!("return it beside the owner, such as `SELECT owner, id AS {bind} FROM ..`"),
            ));
        };
        if returns_itself(sql, bind) {
            return Err(misfit(
                format!(
                    "the look-up `{name}` returns `:{bind}` itself as `{bind}`, which proves nothing"
                ),
                format!("return the column that it is compared with, such as `id AS {bind}`"),
            ));
        }
        echo.push(((*bind).to_owned(), index));
    }
    let Some(owner) = at(OWNER) else {
        return Err(misfit(
            format!("the look-up `{name}` has no column `{OWNER}`"),
            format!("name the column of the owner's subject so, such as `user_id AS {OWNER}`"),
        ));
    };
    let known = |column: &str| [OWNER, TENANT].contains(&column) || binds.contains(&column);
    let mut seen = Vec::new();
    for column in &described.columns {
        if !known(column) {
            return Err(misfit(
                format!("the look-up `{name}` returns a column `{column}` that nobody reads"),
                format!(
                    "leave it out, or name it `{OWNER}`, `{TENANT}` or as the parameter it answers"
                ),
            ));
        }
        if seen.contains(&column) {
            return Err(misfit(
                format!("the look-up `{name}` returns `{column}` twice"),
                "return it once",
            ));
        }
        seen.push(column);
    }
    Ok(Shape {
        owner,
        tenant: at(TENANT),
        echo,
    })
}

/// `:id AS id` in the text: a slip that would switch the comparison off.
fn returns_itself(sql: &str, bind: &str) -> bool {
    let bare = regex::escape(bind);
    let cast = r"(::\s*\w+\s*)?";
    // Without Unicode, which SQL's names and blanks need not: a guard is made per trial of eval, and its classes are large.
    let pattern = format!("(?is-u):{bare}\\s*{cast}\\s+(as\\s+)?[\"`]?{bare}\\b");
    Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(sql))
}

impl Lookup {
    /// Parameters of a path and of pointers, for a look-up that no database describes.
    pub(crate) fn http_fits(&self, name: &str, binds: &[&str]) -> Result<(), Misfit> {
        let Self::Http(http) = self else {
            return Ok(());
        };
        if http.owner.is_none() {
            return Err(misfit(
                format!("the look-up `{name}` does not say where the owner stands"),
                "add `owner` with its JSON Pointer in the answer",
            ));
        }
        parameters_fit(name, &http.parameters(), binds)
    }

    /// Whether a rule can read these columns of it. `described` is what the database says of a look-up in SQL; `None`: it is not
    /// there to be asked.
    pub(crate) fn columns_fit<'c>(
        &self,
        name: &str,
        described: Option<&Described>,
        (always, binds): (&[&str], &[&str]),
        columns: impl Iterator<Item = &'c str>,
    ) -> Result<(), Misfit> {
        let (asked, given): (Vec<String>, Vec<&String>) = match (self, described) {
            (Self::Http(http), _) => (http.parameters(), http.columns.keys().collect()),
            (Self::Sql(_), Some(found)) => {
                (found.parameters.clone(), found.columns.iter().collect())
            }
            (Self::Sql(_), None) => return Ok(()),
        };
        let asked: Vec<_> = asked
            .into_iter()
            .filter(|name| !always.contains(&name.as_str()))
            .collect();
        parameters_fit(name, &asked, binds)?;
        for column in columns {
            let times = given
                .iter()
                .filter(|known| known.as_str() == column)
                .count();
            if times != 1 {
                let known: Vec<_> = given.iter().map(|name| format!("`{name}`")).collect();
                let lack = if times == 0 {
                    "has no"
                } else {
                    "returns more than one"
                };
                return Err(misfit(
                    format!("the look-up `{name}` {lack} column `{column}`"),
                    if known.is_empty() {
                        "it tells none: add `columns` to it, with a JSON Pointer for each"
                            .to_owned()
                    } else {
                        format!("it tells {}", known.join(", "))
                    },
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(parameters: &[&str], columns: &[&str]) -> Described {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Described {
            parameters: owned(parameters),
            columns: owned(columns),
        }
    }

    fn fit(sql: &str, parameters: &[&str], columns: &[&str]) -> Result<Shape, String> {
        owner_fits("l", sql, &described(parameters, columns), &["id"])
            .map_err(|misfit| format!("{}; {}", misfit.message, misfit.help))
    }

    #[test]
    fn columns_go_by_their_names() {
        let shape = fit("", &["id", "tenant"], &["id", "tenant", "owner"]).unwrap();
        assert_eq!((shape.owner, shape.tenant), (2, Some(1)));
        assert_eq!(shape.echo, [("id".to_owned(), 0)]);
    }

    #[test]
    fn a_look_up_that_does_not_fit_says_what_it_lacks() {
        for (parameters, columns, words) in [
            (&["id"] as &[&str], &["owner"] as &[&str], "no column `id`"),
            (&["id"], &["id"], "no column `owner`"),
            (&["id"], &["id", "owner", "x"], "`x` that nobody reads"),
            (&["id"], &["id", "owner", "owner"], "twice"),
            (&["x", "id"], &["id", "owner"], "`:x`, which is not bound"),
            (&["principal"], &["id", "owner"], "does not ask for `:id`"),
        ] {
            let said = fit("", parameters, columns).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
        assert!(values_fit("l", &described(&["principal"], &["a"])).is_ok());
        assert!(values_fit("l", &described(&["principal"], &["a", "b"])).is_err());
        assert!(values_fit("l", &described(&["id"], &["a"])).is_err());
    }

    #[test]
    fn an_echo_of_the_parameter_itself_is_no_echo() {
        for (sql, itself) in [
            ("SELECT owner, :id AS id FROM t WHERE id = :id", true),
            ("SELECT owner, :id id FROM t WHERE id = :id", true),
            ("SELECT owner, :id::text AS \"id\" FROM t", true),
            ("SELECT owner, id FROM t WHERE id = :id", false),
            (
                "SELECT owner, number AS id FROM t WHERE number = :id",
                false,
            ),
        ] {
            assert_eq!(returns_itself(sql, "id"), itself, "{sql}");
        }
    }
}
