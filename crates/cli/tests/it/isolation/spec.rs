//! What a file of `tests/isolation` says; the format is told in its README.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where an answer is given. What `OneInstance` says holds for those that say nothing of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    OneInstance,
    /// Sessions of three instances.
    Spread,
    PostgreSql,
}

/// An answer is expected at this level of isolation (empty: the file has none).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Case {
    pub level: String,
    pub place: Place,
}

#[derive(Debug)]
pub struct Step {
    pub name: String,
    pub session: usize,
    pub sql: String,
}

#[derive(Debug)]
pub struct SessionSpec {
    /// The instance it runs on when sessions are spread.
    pub instance: u16,
    pub setup: String,
}

/// One order of steps. A step with `+` is one after which some step in flight must end.
#[derive(Debug)]
pub struct Permutation {
    pub line: usize,
    pub text: String,
    pub steps: Vec<(usize, bool)>,
    pub expected: BTreeMap<Case, String>,
}

#[derive(Debug)]
pub struct Spec {
    pub path: PathBuf,
    pub levels: Vec<String>,
    pub setup: String,
    pub teardown: String,
    pub sessions: Vec<SessionSpec>,
    pub steps: Vec<Step>,
    pub permutations: Vec<Permutation>,
    /// What stands before each permutation's answers, for a file written anew.
    heads: Vec<String>,
}

/// Sessions without a number are spread over so many in turn.
const INSTANCES: u16 = 3;

impl Spec {
    pub fn read(path: &Path) -> Spec {
        let text = std::fs::read_to_string(path).expect("a spec");
        parse(path, &text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    pub fn name(&self) -> String {
        self.path.file_name().expect("a name").to_string_lossy().into_owned()
    }

    /// The levels it runs at; one without a name if it says none.
    pub fn levels(&self) -> Vec<String> {
        if self.levels.is_empty() { vec![String::new()] } else { self.levels.clone() }
    }

    /// What is expected: the place's own answer where it differs.
    pub fn expected(&self, permutation: usize, case: &Case) -> Option<&String> {
        let expected = &self.permutations[permutation].expected;
        let both = Case { place: Place::OneInstance, ..case.clone() };
        expected.get(case).or_else(|| expected.get(&both))
    }

    /// Notes what has been answered.
    pub fn bless(&mut self, permutation: usize, case: Case, said: String) {
        let expected = &mut self.permutations[permutation].expected;
        let both = Case { place: Place::OneInstance, ..case.clone() };
        if case.place != Place::OneInstance && expected.get(&both) == Some(&said) {
            expected.remove(&case);
        } else {
            expected.insert(case, said);
        }
    }

    pub fn write(&self) {
        let mut text = String::new();
        for (head, permutation) in self.heads.iter().zip(&self.permutations) {
            text.push_str(head);
            for (case, said) in &permutation.expected {
                let mut words = vec![];
                words.extend(Some(case.level.as_str()).filter(|l| !l.is_empty()));
                words.extend(match case.place {
                    Place::OneInstance => None,
                    Place::Spread => Some("spread"),
                    Place::PostgreSql => Some("postgresql"),
                });
                let _ = writeln!(
                    text,
                    "----{}{}",
                    if words.is_empty() { "" } else { " " },
                    words.join(", ")
                );
                text.push_str(said);
            }
        }
        text.push_str(
            self.heads
                .last()
                .filter(|_| self.heads.len() > self.permutations.len())
                .map_or("", String::as_str),
        );
        std::fs::write(&self.path, text).expect("the spec is written");
    }
}

/// What indented lines belong to.
enum Part {
    Nothing,
    Setup,
    Teardown,
    Session,
    Step,
    Answer(Case),
}

#[allow(clippy::too_many_lines)]
fn parse(path: &Path, text: &str) -> Result<Spec, String> {
    let mut spec = Spec {
        path: path.to_owned(),
        levels: Vec::new(),
        setup: String::new(),
        teardown: String::new(),
        sessions: Vec::new(),
        steps: Vec::new(),
        permutations: Vec::new(),
        heads: Vec::new(),
    };
    let mut head = String::new();
    let mut part = Part::Nothing;
    for (at, line) in text.lines().enumerate() {
        let err = |why: &str| format!("line {}: {why}: {line}", at + 1);
        if let Some(words) = line.strip_prefix("----") {
            let case = case(words.trim(), &spec.levels).ok_or_else(|| err("no such answer"))?;
            let of = spec.permutations.last_mut().ok_or_else(|| err("no permutation"))?;
            if of.expected.insert(case.clone(), String::new()).is_some() {
                return Err(err("said twice"));
            }
            part = Part::Answer(case);
            continue;
        }
        if let Part::Answer(case) = &part {
            if !line.is_empty() && !line.starts_with('#') && !line.starts_with("permutation") {
                let of = spec.permutations.last_mut().ok_or_else(|| err("no permutation"))?;
                let said = of.expected.get_mut(case).ok_or_else(|| err("no answer"))?;
                said.push_str(line);
                said.push('\n');
                continue;
            }
            part = Part::Nothing;
        }
        head.push_str(line);
        head.push('\n');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if line.starts_with(' ') {
            let into = match &part {
                Part::Setup => &mut spec.setup,
                Part::Teardown => &mut spec.teardown,
                Part::Session | Part::Step if word.ends_with(':') && indent(line) == 2 => {
                    let name = word.trim_end_matches(':').to_owned();
                    let session = spec.sessions.len() - 1;
                    if name == "setup" {
                        spec.sessions[session].setup = rest.to_owned();
                        part = Part::Session;
                    } else {
                        if spec.steps.iter().any(|s| s.name == name) {
                            return Err(err("a second step of that name"));
                        }
                        spec.steps.push(Step { name, session, sql: rest.to_owned() });
                        part = Part::Step;
                    }
                    continue;
                }
                Part::Session => &mut spec.sessions.last_mut().ok_or_else(|| err("?"))?.setup,
                Part::Step => &mut spec.steps.last_mut().ok_or_else(|| err("?"))?.sql,
                _ => return Err(err("belongs to nothing")),
            };
            let next = matches!(part, Part::Setup | Part::Teardown) && indent(line) == 2;
            if !into.is_empty() {
                // A statement begins at the margin and goes on further in.
                into.push_str(if next { ";\n" } else { "\n" });
            }
            into.push_str(line.trim());
            continue;
        }
        part = match word {
            "levels" => {
                spec.levels = rest.split(',').map(|l| l.trim().to_owned()).collect();
                Part::Nothing
            }
            "setup" => Part::Setup,
            "teardown" => Part::Teardown,
            "session" => {
                let mut words = rest.split(' ');
                words.next().filter(|name| !name.is_empty()).ok_or_else(|| err("a name?"))?;
                let nth = u16::try_from(spec.sessions.len()).unwrap_or(0) % INSTANCES + 1;
                let instance = match (words.next(), words.next()) {
                    (None, _) => nth,
                    (Some("on"), Some(n)) => n.parse().map_err(|_| err("an instance?"))?,
                    _ => return Err(err("expected `on N`")),
                };
                spec.sessions.push(SessionSpec { instance, setup: String::new() });
                Part::Session
            }
            "permutation" => {
                let step = |word: &str| {
                    let (name, ends) = match word.strip_suffix('+') {
                        Some(name) => (name, true),
                        None => (word, false),
                    };
                    let at = spec.steps.iter().position(|s| s.name == name);
                    at.map(|at| (at, ends)).ok_or_else(|| err(&format!("no step {name}")))
                };
                let steps = rest.split_whitespace().map(step).collect::<Result<_, _>>()?;
                spec.permutations.push(Permutation {
                    line: at + 1,
                    text: rest.to_owned(),
                    steps,
                    expected: BTreeMap::new(),
                });
                spec.heads.push(std::mem::take(&mut head));
                Part::Nothing
            }
            _ => return Err(err("what is this?")),
        };
    }
    if !head.trim().is_empty() {
        spec.heads.push(head);
    }
    Ok(spec)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The answers that follow: `---- [LEVEL][, spread | postgresql]`.
fn case(words: &str, levels: &[String]) -> Option<Case> {
    let mut case = Case { level: String::new(), place: Place::OneInstance };
    for word in words.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match word {
            "spread" => case.place = Place::Spread,
            "postgresql" => case.place = Place::PostgreSql,
            level if levels.iter().any(|l| l == level) => level.clone_into(&mut case.level),
            _ => return None,
        }
    }
    (case.level.is_empty() == levels.is_empty()).then_some(case)
}
