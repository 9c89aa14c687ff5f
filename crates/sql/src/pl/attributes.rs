//! What a block says of its session: `dbms_application_info`, and the identifier of
//! `dbms_session`.
//!
//! What it promises: arguments by position or by name; what is too long is cut, as the field cuts
//! it. What it must never do: be undone by a rollback: it is not part of the transaction.

use super::lex::Tok;
use super::long_operation::is_long_operation;
use super::parse::Parser;
use super::run::Machine;
use super::tree::{Kind, Sql, Use};
use crate::{PgError, Result};
use kernel::row::{ColType, TypeKind, Value};
use observe::About;
use std::sync::Arc;

/// Longest value; the rest is cut off.
const VALUE_CHARS_MAX: usize = 64;

/// What is told or asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attribute {
    Module,
    Action,
    ClientInfo,
    ClientIdentifier,
}

impl Attribute {
    fn of(self, about: &mut About) -> &mut Arc<str> {
        match self {
            Attribute::Module => &mut about.module,
            Attribute::Action => &mut about.action,
            Attribute::ClientInfo => &mut about.client_info,
            Attribute::ClientIdentifier => &mut about.client_identifier,
        }
    }

    /// As trace files call it, where they do.
    const fn traced(self) -> Option<&'static str> {
        match self {
            Attribute::Module => Some("MODULE NAME"),
            Attribute::Action => Some("ACTION NAME"),
            Attribute::ClientIdentifier => Some("CLIENT ID"),
            Attribute::ClientInfo => None,
        }
    }
}

/// A procedure with its parameters, in order.
struct Procedure {
    name: &'static str,
    parameters: &'static [(&'static str, Attribute)],
    /// It gives the values to variables.
    reads: bool,
}

const PROCEDURES: [Procedure; 6] = [
    Procedure {
        name: "dbms_application_info.set_module",
        parameters: &[("module_name", Attribute::Module), ("action_name", Attribute::Action)],
        reads: false,
    },
    Procedure {
        name: "dbms_application_info.set_action",
        parameters: &[("action_name", Attribute::Action)],
        reads: false,
    },
    Procedure {
        name: "dbms_application_info.set_client_info",
        parameters: &[("client_info", Attribute::ClientInfo)],
        reads: false,
    },
    Procedure {
        name: "dbms_application_info.read_module",
        parameters: &[("module_name", Attribute::Module), ("action_name", Attribute::Action)],
        reads: true,
    },
    Procedure {
        name: "dbms_application_info.read_client_info",
        parameters: &[("client_info", Attribute::ClientInfo)],
        reads: true,
    },
    Procedure {
        name: "dbms_session.set_identifier",
        parameters: &[("client_id", Attribute::ClientIdentifier)],
        reads: false,
    },
];

/// Takes the identifier back.
const CLEAR: &str = "dbms_session.clear_identifier";

/// Whether a procedure of a package is one of these.
pub(super) fn is_attribute_call(package: &str, name: &str) -> bool {
    package == "dbms_application_info"
        || (package == "dbms_session" && matches!(name, "set_identifier" | "clear_identifier"))
}

impl Parser<'_> {
    /// A call of one of these, and the `;`.
    pub(super) fn attribute_call(&mut self) -> Result<Kind> {
        let package = self.name()?;
        self.expect_symbol(".")?;
        let name = format!("{package}.{}", self.name()?);
        if name == CLEAR {
            if self.symbol("(") {
                self.expect_symbol(")")?;
            }
            self.expect_symbol(";")?;
            return Ok(Kind::Tell(vec![(Attribute::ClientIdentifier, None)]));
        }
        if is_long_operation(&name) {
            return self.long_operation_call();
        }
        let Some(procedure) = PROCEDURES.iter().find(|known| known.name == name) else {
            return Err(self.error("42883", format!("procedure {name} does not exist")));
        };
        let mut told: Vec<(Attribute, Option<Sql>)> = Vec::new();
        let mut asked: Vec<(Attribute, Use)> = Vec::new();
        self.expect_symbol("(")?;
        loop {
            let attribute = self.parameter(procedure, told.len() + asked.len())?;
            let twice = told.iter().any(|(known, _)| *known == attribute)
                || asked.iter().any(|(known, _)| *known == attribute);
            if twice {
                return Err(self.error("42601", format!("an argument of {name} is given twice")));
            }
            match procedure.reads {
                true => asked.push((attribute, self.target()?)),
                false => told.push((attribute, Some(self.expr_until(&[], &[",", ")"])?))),
            }
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        self.expect_symbol(";")?;
        let count = told.len() + asked.len();
        if count != procedure.parameters.len() {
            let text = format!("procedure {name} with {count} arguments does not exist");
            return Err(self.error("42883", text));
        }
        Ok(if procedure.reads { Kind::Ask(asked) } else { Kind::Tell(told) })
    }

    /// The parameter that comes next, by its place or by its name.
    fn parameter(&mut self, procedure: &Procedure, at: usize) -> Result<Attribute> {
        let found = match (self.tok().clone(), self.peek(1)) {
            (Tok::Word(name), Tok::Symbol("=>")) => {
                self.advance();
                self.advance();
                procedure.parameters.iter().find(|(known, _)| *known == name)
            }
            _ => procedure.parameters.get(at),
        };
        match found {
            Some((_, attribute)) => Ok(*attribute),
            None => {
                let text = format!("procedure {} has no such argument", procedure.name);
                Err(self.error("42883", text))
            }
        }
    }
}

impl Machine<'_> {
    /// The session says something of itself.
    pub(super) async fn tell(&mut self, told: &[(Attribute, Option<Sql>)]) -> Result<()> {
        let mut values = Vec::with_capacity(told.len());
        for (attribute, sql) in told {
            let text = match sql {
                Some(sql) => {
                    let (value, _) = self.eval(sql).await?;
                    match self.converted(&value, ColType::new(TypeKind::Text))? {
                        Value::Text(text) => text.chars().take(VALUE_CHARS_MAX).collect(),
                        _ => String::new(),
                    }
                }
                None => String::new(),
            };
            values.push((*attribute, text));
        }
        let ctx = &self.session.ctx;
        ctx.session.describe(|about| {
            for (attribute, text) in &values {
                *attribute.of(about) = Arc::from(text.as_str());
            }
        });
        ctx.apply_trace_rules();
        for (attribute, text) in values {
            if let Some(label) = attribute.traced() {
                ctx.trace_attribute(label, &text);
            }
        }
        Ok(())
    }

    /// It is asked for what it has said; NULL where it has said nothing.
    pub(super) fn ask(&mut self, asked: &[(Attribute, Use)]) -> Result<()> {
        let mut about = self.session.ctx.session.about();
        for (attribute, target) in asked {
            let text = attribute.of(&mut about).clone();
            let value = if text.is_empty() { Value::Null } else { Value::Text((&*text).into()) };
            self.store(target, value, ColType::new(TypeKind::Text))?;
        }
        Ok(())
    }
}

/// A call as a statement by itself, as a block.
pub(crate) fn as_block(call: &str) -> Result<super::Code> {
    if call.is_empty() {
        return Err(PgError::syntax("syntax error at end of input"));
    }
    Ok(super::Code { text: Arc::from(format!("begin {call}; end;")), field: true })
}
