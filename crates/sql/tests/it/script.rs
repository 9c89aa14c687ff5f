//! Scripts taken apart and put together again.

/// One piece of a script.
pub enum Block {
    /// Comments and empty lines, kept as they are.
    Prose(String),
    Session(String),
    /// Whether sessions stay on their instance from here, and why.
    Stay(bool, String),
    Params(Vec<Option<String>>),
    /// A statement: the word that begins the block, its argument, the text.
    Statement {
        word: String,
        arg: String,
        text: String,
    },
}

/// The blocks of a script, without what was expected.
pub fn parse(text: &str) -> Vec<Block> {
    let mut out = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            out.push(Block::Prose(line.to_owned()));
            continue;
        }
        let (word, arg) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "stay" | "hop" => out.push(Block::Stay(word == "stay", line.to_owned())),
            "session" => out.push(Block::Session(arg.to_owned())),
            "params" => out.push(Block::Params(arg.split(", ").map(value).collect())),
            "run" | "masked" | "error" | "begin" | "end" => {
                let mut text = Vec::new();
                let mut expected = false;
                while let Some(line) = lines.peek() {
                    if line.trim().is_empty() {
                        break;
                    }
                    expected |= *line == "----";
                    if !expected {
                        text.push(*line);
                    }
                    lines.next();
                }
                out.push(Block::Statement {
                    word: word.to_owned(),
                    arg: arg.to_owned(),
                    text: text.join("\n"),
                });
            }
            other => panic!("a block cannot begin with \"{other}\""),
        }
    }
    out
}

fn value(text: &str) -> Option<String> {
    (text != "NULL").then(|| text.to_owned())
}

/// The first lines where two texts differ, with what comes before.
pub fn difference(want: &str, got: &str) -> String {
    let (want, got): (Vec<&str>, Vec<&str>) = (want.lines().collect(), got.lines().collect());
    let at = want.iter().zip(&got).position(|(a, b)| a != b).unwrap_or(want.len().min(got.len()));
    let part = |lines: &[&str], mark: &str| -> String {
        let from = at.saturating_sub(6);
        let shown = lines.iter().enumerate().skip(from).take(14);
        shown.map(|(i, l)| format!("{}{l}\n", if i >= at { mark } else { "  " })).collect()
    };
    format!("line {}\n{}--- got\n{}", at + 1, part(&want, "- "), part(&got, "+ "))
}
