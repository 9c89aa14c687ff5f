//! Who may log on from where, and how they prove who they are: the rules of a file in the form of
//! PostgreSQL's `pg_hba.conf`.
//!
//! What it promises: the first rule that fits decides; a file that has changed counts at the next
//! log-on, without a restart, unless a line of it is wrong: then the rules before it stay, and the
//! alert log and `pg_hba_file_rules` say which line. What it must never do: let somebody in because
//! a line could not be read.
//!
//! A file and not a table of the dictionary: a rule that locks everybody out must be mendable by
//! whoever owns the files, with no session at all.

use kernel::dict::Roles;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lines of a file at the most.
const RULES_MAX: usize = 10_000;

/// Which connections a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Local,
    Host,
    HostSsl,
    HostNoSsl,
}

impl Kind {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Local => "local",
            Kind::Host => "host",
            Kind::HostSsl => "hostssl",
            Kind::HostNoSsl => "hostnossl",
        }
    }
}

/// How a client has to prove who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Trust,
    Scram,
    Reject,
    Certificate,
}

impl Method {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Method::Trust => "trust",
            Method::Scram => "scram-sha-256",
            Method::Reject => "reject",
            Method::Certificate => "cert",
        }
    }
}

/// A name in a rule; a quoted one has no meaning of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    text: String,
    quoted: bool,
}

impl Name {
    fn is(&self, keyword: &str) -> bool {
        !self.quoted && self.text == keyword
    }
}

/// Addresses that a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Address {
    All,
    Network(IpAddr, u8),
}

/// One rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    pub line_no: usize,
    pub kind: Kind,
    databases: Vec<Name>,
    users: Vec<Name>,
    /// `None` for `local`.
    address: Option<Address>,
    pub method: Method,
}

/// Who knocks.
#[derive(Clone, Copy, Debug)]
pub struct Knock<'a> {
    pub user: &'a str,
    pub database: &'a str,
    /// `None`: through the Unix socket.
    pub peer: Option<IpAddr>,
    pub encrypted: bool,
}

/// A line that could not be read, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    pub line_no: usize,
    pub why: String,
}

fn tokens(line: &str) -> Result<Vec<Vec<Name>>, String> {
    let mut out: Vec<Vec<Name>> = Vec::new();
    let mut open = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.peek().copied() {
        match c {
            '#' => break,
            ',' => {
                chars.next();
                open = true;
            }
            c if c.is_whitespace() => {
                chars.next();
            }
            c => {
                let quoted = c == '"';
                let mut text = String::new();
                if quoted {
                    chars.next();
                    loop {
                        match chars.next() {
                            None => return Err("a quote is not closed".to_owned()),
                            Some('"') => break,
                            Some(c) => text.push(c),
                        }
                    }
                } else {
                    let stops = |c: char| c.is_whitespace() || matches!(c, ',' | '#' | '"');
                    while let Some(c) = chars.next_if(|c| !stops(*c)) {
                        text.push(c);
                    }
                }
                let name = Name { text, quoted };
                match out.last_mut() {
                    Some(list) if open => list.push(name),
                    _ => out.push(vec![name]),
                }
                open = false;
            }
        }
    }
    Ok(out)
}

fn network(text: &str) -> Result<Address, String> {
    let wrong = || format!("invalid IP address \"{text}\"");
    match text {
        "all" => return Ok(Address::All),
        "samehost" | "samenet" => return Err(format!("\"{text}\" is not supported")),
        _ => {}
    }
    let Some((ip, bits)) = text.split_once('/') else {
        let why = "a mask must follow the address, as in 10.0.0.0/8; names of hosts are not \
                   supported";
        return Err(format!("{}: {why}", wrong()));
    };
    let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|bits| *bits <= most);
    let bits: u8 = bits.ok_or_else(|| format!("invalid CIDR mask in address \"{text}\""))?;
    Ok(Address::Network(ip, bits))
}

/// The same as an address and a mask beside it.
fn masked(ip: &str, mask: &str) -> Result<Address, String> {
    let wrong = |text: &str| format!("invalid IP address \"{text}\"");
    let address: IpAddr = ip.parse().map_err(|_| wrong(ip))?;
    let mask: IpAddr = mask.parse().map_err(|_| wrong(mask))?;
    let (bits, whole) = match (address, mask) {
        (IpAddr::V4(_), IpAddr::V4(mask)) => {
            let mask = u32::from(mask);
            (mask.leading_ones(), mask.leading_ones() == mask.count_ones())
        }
        (IpAddr::V6(_), IpAddr::V6(mask)) => {
            let mask = u128::from(mask);
            (mask.leading_ones(), mask.leading_ones() == mask.count_ones())
        }
        _ => return Err("address and mask are of different kinds".to_owned()),
    };
    if !whole {
        return Err(format!("mask \"{mask}\" has bits behind a gap"));
    }
    Ok(Address::Network(address, u8::try_from(bits).unwrap_or(u8::MAX)))
}

fn rule(line_no: usize, line: &str) -> Result<Option<Rule>, String> {
    let mut fields = tokens(line)?.into_iter();
    let Some(first) = fields.next() else { return Ok(None) };
    let [kind] = &first[..] else {
        return Err("a line begins with one connection type".to_owned());
    };
    let kind = match kind.text.as_str() {
        "local" => Kind::Local,
        "host" => Kind::Host,
        "hostssl" => Kind::HostSsl,
        "hostnossl" => Kind::HostNoSsl,
        other => return Err(format!("invalid connection type \"{other}\"")),
    };
    let databases = fields.next().ok_or("end-of-line before database specification")?;
    let users = fields.next().ok_or("end-of-line before role specification")?;
    let mut one = |missing: &str| -> Result<String, String> {
        let field = fields.next().ok_or_else(|| missing.to_owned())?;
        match &field[..] {
            [name] => Ok(name.text.clone()),
            _ => Err("several values where one is expected".to_owned()),
        }
    };
    let mut method = None;
    let address = match kind {
        Kind::Local => None,
        _ => {
            let text = one("end-of-line before IP address specification")?;
            if text != "all" && !text.contains('/') && text.parse::<IpAddr>().is_ok() {
                Some(masked(&text, &one("end-of-line before netmask specification")?)?)
            } else {
                Some(network(&text)?)
            }
        }
    };
    let word = one("end-of-line before authentication method")?;
    for (known, found) in [
        ("trust", Method::Trust),
        ("scram-sha-256", Method::Scram),
        ("reject", Method::Reject),
        ("cert", Method::Certificate),
    ] {
        if word == known {
            method = Some(found);
        }
    }
    let method = method.ok_or_else(|| {
        format!(
            "invalid authentication method \"{word}\": there are trust, scram-sha-256, reject and \
             cert"
        )
    })?;
    if method == Method::Certificate && kind != Kind::HostSsl {
        return Err("cert authentication is only supported on hostssl connections".to_owned());
    }
    if let Some(more) = fields.next() {
        let text = more.first().map_or("", |name| name.text.as_str());
        return Err(format!("authentication option \"{text}\" is not supported"));
    }
    Ok(Some(Rule { line_no, kind, databases, users, address, method }))
}

/// The rules of a text and what is wrong in it.
#[must_use]
pub fn parse(text: &str) -> (Vec<Rule>, Vec<Wrong>) {
    let (mut rules, mut wrong) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate() {
        match rule(i + 1, line) {
            Ok(found) => rules.extend(found),
            Err(why) => wrong.push(Wrong { line_no: i + 1, why }),
        }
        if rules.len() > RULES_MAX {
            wrong.push(Wrong { line_no: i + 1, why: format!("more than {RULES_MAX} rules") });
            break;
        }
    }
    (rules, wrong)
}

fn fits(network: IpAddr, bits: u8, peer: IpAddr) -> bool {
    match (network, peer) {
        (IpAddr::V4(network), IpAddr::V4(peer)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (u32::from(network) ^ u32::from(peer)) & mask == 0
        }
        (IpAddr::V6(network), IpAddr::V6(peer)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            (u128::from(network) ^ u128::from(peer)) & mask == 0
        }
        _ => false,
    }
}

impl Rule {
    fn is_for(&self, knock: &Knock<'_>, roles: &Roles) -> bool {
        let over = match (self.kind, knock.peer) {
            (Kind::Local, peer) => peer.is_none(),
            (_, None) => false,
            (Kind::Host, Some(_)) => true,
            (Kind::HostSsl, Some(_)) => knock.encrypted,
            (Kind::HostNoSsl, Some(_)) => !knock.encrypted,
        };
        let from = match (self.address, knock.peer) {
            (Some(Address::Network(network, bits)), Some(peer)) => fits(network, bits, peer),
            _ => true,
        };
        // As in PostgreSQL, a superuser is a member only of what it is said to be one of.
        let member = |of: &str| {
            let (user, role) = (roles.find(knock.user), roles.find(of));
            let (Some(user), Some(role)) = (user, role) else { return false };
            roles.above(user.obj, false).contains(&role.obj)
        };
        let database = |name: &Name| {
            name.is("all")
                || (name.is("sameuser") && knock.user == knock.database)
                || (name.is("samerole") && member(knock.database))
                || name.text == knock.database
        };
        let user = |name: &Name| {
            name.is("all")
                || name.text == knock.user
                || (!name.quoted && name.text.strip_prefix('+').is_some_and(member))
        };
        over && from && self.databases.iter().any(database) && self.users.iter().any(user)
    }

    /// Databases and users as the view shows them.
    #[must_use]
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let all = |names: &[Name]| names.iter().map(|name| name.text.clone()).collect();
        (all(&self.databases), all(&self.users))
    }

    /// Address and mask as the view shows them.
    #[must_use]
    pub fn address(&self) -> (Option<String>, Option<String>) {
        match self.address {
            None => (None, None),
            Some(Address::All) => (Some("all".to_owned()), None),
            Some(Address::Network(ip @ IpAddr::V4(_), bits)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                (Some(ip.to_string()), Some(std::net::Ipv4Addr::from(mask).to_string()))
            }
            Some(Address::Network(ip @ IpAddr::V6(_), bits)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                (Some(ip.to_string()), Some(std::net::Ipv6Addr::from(mask).to_string()))
            }
        }
    }
}

/// What counts where there is no file: everybody, with a password.
const WITHOUT_FILE: &str = "local all all scram-sha-256\nhost all all all scram-sha-256\n";

/// What tells one state of the file from another.
type Stamp = Option<(std::time::SystemTime, u64)>;

struct Loaded {
    stamp: Option<Stamp>,
    rules: Arc<Vec<Rule>>,
    /// The file they are from has gone since.
    missing: bool,
}

/// The rules of one instance.
pub(crate) struct Hba {
    path: Mutex<Option<PathBuf>>,
    loaded: Mutex<Loaded>,
}

impl Default for Hba {
    fn default() -> Hba {
        let rules = Arc::new(parse(WITHOUT_FILE).0);
        Hba {
            path: Mutex::new(None),
            loaded: Mutex::new(Loaded { stamp: None, rules, missing: false }),
        }
    }
}

fn stamp_of(path: &Path) -> Stamp {
    let of = std::fs::metadata(path).ok()?;
    Some((of.modified().ok()?, of.len()))
}

fn read(path: &Path) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(WITHOUT_FILE.to_owned()),
        Err(e) => Err(format!("{} cannot be read: {e}", path.display())),
    }
}

fn gone(path: &Path) -> String {
    format!("{} is missing; the rules that were in it stay", path.display())
}

impl Hba {
    /// Takes the rules from this file from now on.
    ///
    /// # Errors
    /// The file is there and cannot be read, or a line of it is wrong.
    pub(crate) fn follow(&self, path: &Path) -> Result<(), String> {
        let stamp = stamp_of(path);
        let (rules, wrong) = parse(&read(path)?);
        if let Some(first) = wrong.first() {
            let (line, why) = (first.line_no, &first.why);
            return Err(format!("line {line} of {}: {why}", path.display()));
        }
        *self.path.lock() = Some(path.to_owned());
        *self.loaded.lock() = Loaded { stamp: Some(stamp), rules: Arc::new(rules), missing: false };
        Ok(())
    }

    /// The rules that count now, and what is wrong with a file that has changed.
    pub(crate) fn rules(&self) -> (Arc<Vec<Rule>>, Option<String>) {
        let Some(path) = self.path.lock().clone() else {
            return (Arc::clone(&self.loaded.lock().rules), None);
        };
        let stamp = stamp_of(&path);
        if self.loaded.lock().stamp == Some(stamp) {
            return (Arc::clone(&self.loaded.lock().rules), None);
        }
        let mut problem = None;
        let found = match stamp {
            Some(_) => read(&path),
            // Without a file everybody may log on; that must not come of a file moved away.
            None => Err(gone(&path)),
        };
        match found.map(|text| parse(&text)) {
            Ok((rules, wrong)) => match wrong.first() {
                None => self.loaded.lock().rules = Arc::new(rules),
                Some(first) => {
                    let (line, why) = (first.line_no, &first.why);
                    let path = path.display();
                    problem = Some(format!("{path} not reloaded: line {line}: {why}"));
                }
            },
            Err(why) => problem = Some(why),
        }
        let mut loaded = self.loaded.lock();
        loaded.stamp = Some(stamp);
        loaded.missing = stamp.is_none();
        (Arc::clone(&loaded.rules), problem)
    }

    /// The file as it is now, for the view: what counts is what can be read of it.
    pub(crate) fn as_it_is(&self) -> (Vec<Rule>, Vec<Wrong>) {
        let path = self.path.lock().clone();
        // As a log-on would find it.
        let (rules, _) = self.rules();
        if let Some(path) = path.as_ref().filter(|_| self.loaded.lock().missing) {
            return (rules.to_vec(), vec![Wrong { line_no: 0, why: gone(path) }]);
        }
        match path.map(|path| read(&path)) {
            None => parse(WITHOUT_FILE),
            Some(Ok(text)) => parse(&text),
            Some(Err(why)) => (Vec::new(), vec![Wrong { line_no: 0, why }]),
        }
    }
}

/// The method of the first rule that fits.
pub(crate) fn method_of(rules: &[Rule], knock: &Knock<'_>, roles: &Roles) -> Option<Method> {
    rules.iter().find(|rule| rule.is_for(knock, roles)).map(|rule| rule.method)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(line: &str) -> String {
        parse(line).1.pop().map(|wrong| wrong.why).unwrap_or_default()
    }

    #[test]
    fn lines_are_read_as_postgresql_writes_them() {
        let text = "# who\nlocal all all trust\n\nhostssl a,\"all\" +team, bob 10.0.0.0/8 \
                    scram-sha-256 # why\nhost all all 192.168.1.7 255.255.255.255 reject\n";
        let (rules, wrong) = parse(text);
        assert_eq!((rules.len(), wrong.len()), (3, 0));
        assert_eq!(rules[1].names().1, ["+team", "bob"]);
        assert_eq!(rules[2].address().1.as_deref(), Some("255.255.255.255"));
        assert_eq!((rules[2].line_no, rules[2].method), (5, Method::Reject));
    }

    #[test]
    fn what_is_not_understood_is_an_error_of_its_line() {
        assert!(wrong("hosts all all all trust").contains("connection type"));
        assert!(wrong("host all all all md5").contains("\"md5\""));
        assert!(wrong("host all all 10.0.0.0/33 trust").contains("mask"));
        assert!(wrong("host all all example.org trust").contains("names of hosts"));
        assert!(wrong("host all all all cert").contains("hostssl"));
        assert!(wrong("host all all all trust map=x").contains("map=x"));
        assert!(wrong("host all all 10.0.5.0 255.0.255.0 trust").contains("gap"));
        assert!(wrong("host all").contains("role"));
        assert!(wrong("host \"all all all trust").contains("quote"));
    }

    #[test]
    fn networks_have_ends() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(fits(ip("10.1.0.0"), 16, ip("10.1.255.7")));
        assert!(!fits(ip("10.1.0.0"), 16, ip("10.2.0.7")));
        assert!(fits(ip("0.0.0.0"), 0, ip("9.9.9.9")));
        assert!(!fits(ip("0.0.0.0"), 0, ip("::1")));
        assert!(fits(ip("::1"), 128, ip("::1")));
    }
}
