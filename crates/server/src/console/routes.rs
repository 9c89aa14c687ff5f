//! From a request to an answer.
//!
//! What it promises: pages' data go to who shows a session's cookie and to nobody else; what
//! changes something is taken only from the page itself (a POST of JSON from the same origin: a
//! form elsewhere can send none); an address that this console was not called by is refused, so
//! that no foreign name can be pointed at it; every answer carries the policies. What it must never
//! do: put anything of a request into an answer but as JSON text.

use super::assets;
use super::log_on::{Applicant, Refused, log_on};
use super::viewer::{Answered, LIFE_LIMIT, Task, Unasked, Viewer};
use super::{Shared, metrics, pages, query};
use crate::report::Report;
use crate::tls::Encryption;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    COOKIE, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    RETRY_AFTER, SET_COOKIE, STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const BODY_BYTES_MAX: usize = 64 * 1024;
/// How long a body may take, and how long an answer of a session.
const BODY_LIMIT: Duration = Duration::from_secs(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A report reads much, and a snapshot writes much.
const REPORT_LIMIT: Duration = Duration::from_secs(120);

/// No script, style, image, connection or frame but the console's own; nowhere in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; frame-src 'self'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";
/// A report has its styles in it and is shown in a frame of the console. It is nobody's origin:
/// whatever may be in it runs no script, sends nothing and knows no cookie.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                             form-action 'none'; frame-ancestors 'self'; sandbox";

/// Who asks.
pub struct Caller {
    pub from: SocketAddr,
    pub encryption: Option<Encryption>,
}

type Answer = Response<Full<Bytes>>;

/// Why a request is refused, as the page is told.
struct Refusal {
    status: StatusCode,
    code: String,
    message: String,
    hint: Option<String>,
    also: Also,
}

/// What a refusal says in its head.
#[derive(Clone, Copy)]
enum Also {
    Nothing,
    RetryAfterS(u64),
    WantsBasic,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        let code = String::new();
        Refusal { status, code, message: message.into(), hint: None, also: Also::Nothing }
    }

    fn no_session() -> Refusal {
        Refusal::new(StatusCode::UNAUTHORIZED, "log on first: there is no such session any more")
    }

    fn answer(self) -> Answer {
        let Refusal { code, message, hint, .. } = &self;
        let told = json!({ "code": code, "message": message, "hint": hint });
        let mut answer = json_answer(self.status, &json!({ "error": told }));
        let (name, value) = match self.also {
            Also::Nothing => return answer,
            Also::RetryAfterS(seconds) => (RETRY_AFTER, HeaderValue::from(seconds)),
            Also::WantsBasic => {
                (WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"skein\""))
            }
        };
        answer.headers_mut().insert(name, value);
        answer
    }
}

impl From<Report> for Refusal {
    fn from(report: Report) -> Refusal {
        let status = match report.code() {
            "42501" | "28000" => StatusCode::FORBIDDEN,
            "28P01" | "57P01" | "57P05" => StatusCode::UNAUTHORIZED,
            "53300" => StatusCode::SERVICE_UNAVAILABLE,
            "57014" => StatusCode::GATEWAY_TIMEOUT,
            code if code.starts_with("XX") => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        let hint = report.extra().and_then(|extra| extra.hint.clone());
        let code = report.code().to_owned();
        Refusal { status, code, message: report.message, hint, also: Also::Nothing }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        match refused {
            Refused::Told(report) => report.into(),
            Refused::Full(why) => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why),
            Refused::Wait(wait) => {
                let seconds = wait.as_secs() + 1;
                let text = format!(
                    "too many log-ons from this address have failed; try again in {seconds} s"
                );
                let also = Also::RetryAfterS(seconds);
                Refusal { also, ..Refusal::new(StatusCode::TOO_MANY_REQUESTS, text) }
            }
        }
    }
}

impl From<Unasked> for Refusal {
    fn from(why: Unasked) -> Refusal {
        match why {
            Unasked::Ended => Refusal::no_session(),
            Unasked::Busy => Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "this session has too many questions open; wait for their answers",
            ),
        }
    }
}

fn json_answer(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(value.to_string())));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// Answers a request.
pub async fn answer(shared: &Arc<Shared>, caller: &Caller, request: Request<Incoming>) -> Answer {
    let mut answer = match route(shared, caller, request).await {
        Ok(answer) => answer,
        Err(refusal) => refusal.answer(),
    };
    let headers = answer.headers_mut();
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    if !headers.contains_key(CONTENT_SECURITY_POLICY) {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        // A browser shows no page in a sandbox that asks for this too.
        headers.insert(opener, HeaderValue::from_static("same-origin"));
    }
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What is shown changes with every request, and the page with every version.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if caller.encryption.is_some() {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, year);
    }
    answer
}

async fn route(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    check_host(shared, request.headers())?;
    let path = request.uri().path().to_owned();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads && let Some(asset) = assets::find(&path) {
        let mut answer = Response::new(Full::new(Bytes::from_static(asset.body)));
        let kind = HeaderValue::from_static(asset.content_type);
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        return Ok(answer);
    }
    match (path.as_str(), reads) {
        ("/metrics", true) => scrape(shared, caller, request.headers()).await,
        ("/api/log-on", false) => enter(shared, caller, request).await,
        ("/api/log-off", false) => leave(shared, request).await,
        ("/api/report", true) => {
            Ok(report(shared, request.headers(), request.uri().query().unwrap_or("")).await)
        }
        (path, true) => {
            let query = request.uri().query().unwrap_or("");
            let task = pages::page(path, query).ok_or_else(not_found)?;
            let viewer = viewer_of(shared, request.headers())?;
            ask(shared, &viewer, task.map_err(bad_request)?).await
        }
        (path, false) if pages::is_action(path) => {
            let viewer = viewer_of(shared, request.headers())?;
            let body = body_of(request).await?;
            let task = pages::action(path, &body).map_err(bad_request)?;
            ask(shared, &viewer, task).await
        }
        _ => Err(not_found()),
    }
}

fn bad_request(text: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, text)
}

fn not_found() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this address")
}

/// Host and port that a request was sent to, without the port.
fn host_of(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(HOST)?.to_str().ok()?;
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    }
}

/// Whether a host names a machine by what nobody else can point elsewhere.
fn is_plain_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

/// A page of a foreign name that is made to lead here must not be taken for ours.
fn check_host(shared: &Shared, headers: &HeaderMap) -> Result<(), Refusal> {
    let host = host_of(headers);
    if host.is_some_and(|host| !shared.address.ip().is_loopback() || is_plain_host(host)) {
        return Ok(());
    }
    let text = "this console is for its machine alone: call it by its address or localhost";
    Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, text))
}

/// A POST comes from our own page: it is JSON, which no form can send, and names our origin.
async fn body_of(request: Request<Incoming>) -> Result<Bytes, Refusal> {
    let headers = request.headers();
    let is_json = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or(""));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let same = origin.is_none_or(|origin| {
        origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(host))
    });
    if request.method() != Method::POST {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this address takes POST"));
    }
    if !is_json || !same {
        let text = "only the console's own page may do this, with a body of JSON";
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_LIMIT, body).await {
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request did not arrive")),
        Ok(Err(_)) => Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large")),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

/// Cookies of one machine are shared by all its ports: each console has a name of its own.
fn cookie_name(shared: &Shared) -> String {
    format!("skein_console_{}", shared.address.port())
}

fn token_of<'a>(shared: &Shared, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = cookie_name(shared);
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|line| line.split(';')).filter_map(|c| c.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, token)| token)
}

fn viewer_of(shared: &Shared, headers: &HeaderMap) -> Result<Arc<Viewer>, Refusal> {
    let token = token_of(shared, headers);
    token.and_then(|token| shared.viewers.find(token)).ok_or_else(Refusal::no_session)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    user: String,
    password: String,
}

async fn enter(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let before = token_of(shared, request.headers()).map(str::to_owned);
    let body = body_of(request).await?;
    let Credentials { user, password } = serde_json::from_slice(&body)
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "user and password are wanted"))?;
    let encryption = caller.encryption.clone();
    let applicant = Applicant { user, password, from: caller.from, encryption };
    let viewer = log_on(shared, applicant).await?;
    // A session of the same browser that is given up would last until it is idle for long.
    if let Some(token) = before {
        shared.viewers.end(&token);
    }
    let user = viewer.user.clone();
    let token = shared.viewers.add(viewer);
    let mut answer = json_answer(StatusCode::OK, &json!({ "user": user }));
    set_cookie(shared, &mut answer, &token, LIFE_LIMIT);
    Ok(answer)
}

async fn leave(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Refusal> {
    let token = token_of(shared, request.headers()).map(str::to_owned);
    body_of(request).await?;
    if let Some(token) = token {
        shared.viewers.end(&token);
    }
    let mut answer = json_answer(StatusCode::OK, &json!({}));
    set_cookie(shared, &mut answer, "", Duration::ZERO);
    Ok(answer)
}

fn set_cookie(shared: &Shared, answer: &mut Answer, token: &str, life: Duration) {
    let secure = if shared.tls.is_some() { "; Secure" } else { "" };
    let (name, life_s) = (cookie_name(shared), life.as_secs());
    let cookie =
        format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life_s}{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
}

async fn ask(shared: &Arc<Shared>, viewer: &Arc<Viewer>, task: Task) -> Result<Answer, Refusal> {
    let limit = if matches!(task, Task::TakeSnapshot) { REPORT_LIMIT } else { ANSWER_LIMIT };
    let Answered::Tables(mut tables) = answered(viewer, task, limit).await? else {
        return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no rows have come"));
    };
    tables.insert("user".to_owned(), json!(viewer.user));
    tables.insert("instance".to_owned(), json!(shared.engine.instance().me.0));
    Ok(json_answer(StatusCode::OK, &Value::Object(tables)))
}

async fn answered(viewer: &Arc<Viewer>, task: Task, limit: Duration) -> Result<Answered, Refusal> {
    let late = || Refusal::new(StatusCode::GATEWAY_TIMEOUT, "the session has not answered in time");
    let answered = viewer.ask(task)?;
    let answered = tokio::time::timeout(limit, answered).await.map_err(|_| late())?;
    Ok(answered.map_err(|_| Refusal::no_session())??)
}

/// A report, or a page that says why there is none: a frame shows both.
async fn report(shared: &Arc<Shared>, headers: &HeaderMap, text: &str) -> Answer {
    let made = async {
        let viewer = viewer_of(shared, headers)?;
        let (wanted, download) = query::report(text).map_err(bad_request)?;
        match answered(&viewer, Task::Report(wanted), REPORT_LIMIT).await? {
            Answered::Page(page) => Ok((page, download.then(|| wanted.file_name()))),
            Answered::Tables(_) => {
                Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no report has come"))
            }
        }
    };
    let (status, (page, file)) = match made.await {
        Ok(made) => (StatusCode::OK, made),
        Err(refusal) => (refusal.status, (::report::refusal_html(&refusal.message), None)),
    };
    let mut answer = Response::new(Full::new(Bytes::from(page)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPORT_POLICY));
    let named = file.map(|name| format!("attachment; filename=\"{name}\""));
    if let Some(named) = named.and_then(|named| HeaderValue::from_str(&named).ok()) {
        headers.insert(CONTENT_DISPOSITION, named);
    }
    answer
}

/// Metrics: for the machine itself without log-on, for others with a user's name and password.
async fn scrape(
    shared: &Arc<Shared>,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Answer, Refusal> {
    // Who came through a proxy of this machine is not of this machine.
    let passed_on = headers.contains_key(FORWARDED) || headers.contains_key("x-forwarded-for");
    let own = caller.from.ip().to_canonical().is_loopback()
        && !passed_on
        && host_of(headers).is_some_and(is_plain_host);
    if !own || headers.contains_key(AUTHORIZATION) {
        let Some((user, password)) = basic(headers) else {
            let text = "metrics want the name and password of a user of the database (Basic)";
            let also = Also::WantsBasic;
            return Err(Refusal { also, ..Refusal::new(StatusCode::UNAUTHORIZED, text) });
        };
        let encryption = caller.encryption.clone();
        let applicant = Applicant { user, password, from: caller.from, encryption };
        log_on(shared, applicant).await?.terminate();
    }
    let text = shared.metrics.text(shared);
    let mut answer = Response::new(Full::new(text));
    let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(answer)
}

/// Name and password of an `Authorization: Basic`.
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    let encoded = scheme.eq_ignore_ascii_case("basic").then_some(encoded)?;
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        of.iter().map(pair).collect()
    }

    #[test]
    fn hosts_are_taken_apart() {
        for (sent, host, plain) in [
            ("127.0.0.1:6601", "127.0.0.1", true),
            ("[::1]:6601", "::1", true),
            ("LocalHost", "LocalHost", true),
            ("evil.example:6601", "evil.example", false),
            ("127.0.0.1.evil.example", "127.0.0.1.evil.example", false),
        ] {
            let sent = headers(&[("host", sent)]);
            assert_eq!(host_of(&sent), Some(host));
            assert_eq!(is_plain_host(host), plain, "{host}");
        }
        assert_eq!(host_of(&headers(&[])), None);
    }

    #[test]
    fn basic_credentials_are_decoded() {
        let of = |value: &str| basic(&headers(&[("authorization", value)]));
        let encoded = STANDARD.encode("ann:p:w");
        let expected = Some(("ann".to_owned(), "p:w".to_owned()));
        assert_eq!(of(&format!("Basic {encoded}")), expected);
        for broken in ["Basic !", "Bearer x", "Basic", &format!("Basic {}", STANDARD.encode("x"))] {
            assert_eq!(of(broken), None, "{broken}");
        }
    }
}
