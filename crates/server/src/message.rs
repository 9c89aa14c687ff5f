//! Decoding of what a client sends.
//!
//! What it promises: every read is bounded by the message it belongs to, and bytes that do not make
//! a message are an error, never a panic and never a guess. (The protocol library's decoders read
//! on into the next message and replace invalid UTF-8, so only its answers are used.) Names and
//! texts are borrowed from the input buffer.

use bytes::Bytes;

/// Why a message was not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Not a message: the stream cannot be trusted any more.
    Malformed(&'static str),
    /// The message is whole, but a text in it is not UTF-8: the statement fails, nothing else.
    NotUtf8,
}

/// What Describe and Close are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Statement,
    Portal,
}

/// The parts of a Bind message.
#[derive(Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub param_formats: Vec<i16>,
    pub params: Vec<Option<Bytes>>,
    pub result_formats: Vec<i16>,
}

/// A message from the client, after log-on.
#[derive(Debug, PartialEq, Eq)]
pub enum Frontend<'a> {
    Query(&'a str),
    Parse { name: &'a str, query: &'a str, param_oids: Vec<u32> },
    Bind(Bind<'a>),
    Describe(Target, &'a str),
    Execute { portal: &'a str, max_rows: usize },
    Close(Target, &'a str),
    Sync,
    Flush,
    Terminate,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a str),
    FunctionCall,
}

/// Whether `tag` begins a message that a client may send after log-on.
#[must_use]
pub fn is_frontend_tag(tag: u8) -> bool {
    matches!(
        tag,
        b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'S' | b'H' | b'X' | b'd' | b'c' | b'f' | b'F'
    )
}

/// Whether messages with this tag may be long; the others have a few fixed fields and a name.
#[must_use]
pub fn may_be_long(tag: u8) -> bool {
    matches!(tag, b'Q' | b'P' | b'B' | b'd' | b'F')
}

/// Decodes the body of the message `tag`.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(tag: u8, body: &[u8]) -> Result<Frontend<'_>, DecodeError> {
    let mut r = Reader { rest: body };
    let message = match tag {
        b'Q' => Frontend::Query(r.text()?),
        b'P' => decode_parse(&mut r)?,
        b'B' => Frontend::Bind(decode_bind(&mut r)?),
        b'D' => Frontend::Describe(r.target()?, r.text()?),
        b'C' => Frontend::Close(r.target()?, r.text()?),
        b'E' => Frontend::Execute {
            portal: r.text()?,
            // Zero and, as in PostgreSQL, anything below it mean all rows.
            max_rows: usize::try_from(r.i32()?).unwrap_or(0),
        },
        b'S' => Frontend::Sync,
        b'H' => Frontend::Flush,
        b'X' => Frontend::Terminate,
        b'd' => return Ok(Frontend::CopyData(body)),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(r.text()?),
        b'F' => return Ok(Frontend::FunctionCall),
        _ => return Err(DecodeError::Malformed("unknown message type")),
    };
    if r.rest.is_empty() { Ok(message) } else { Err(TRAILING) }
}

const SHORT: DecodeError = DecodeError::Malformed("insufficient data left in message");
const TRAILING: DecodeError = DecodeError::Malformed("invalid message format");

fn decode_parse<'a>(r: &mut Reader<'a>) -> Result<Frontend<'a>, DecodeError> {
    let name = r.text()?;
    let query = r.text()?;
    let count = usize::from(r.u16()?);
    let mut param_oids = Vec::with_capacity(count.min(r.rest.len() / 4));
    for _ in 0..count {
        param_oids.push(r.i32()?.cast_unsigned());
    }
    Ok(Frontend::Parse { name, query, param_oids })
}

fn decode_bind<'a>(r: &mut Reader<'a>) -> Result<Bind<'a>, DecodeError> {
    let portal = r.text()?;
    let statement = r.text()?;
    let param_formats = r.formats()?;
    let count = usize::from(r.u16()?);
    let mut params = Vec::with_capacity(count.min(r.rest.len() / 4));
    for _ in 0..count {
        params.push(match r.i32()? {
            -1 => None,
            len => {
                let len = usize::try_from(len).map_err(|_| TRAILING)?;
                Some(Bytes::copy_from_slice(r.take(len)?))
            }
        });
    }
    let result_formats = r.formats()?;
    if param_formats.len() > 1 && param_formats.len() != params.len() {
        return Err(DecodeError::Malformed("bind message has a wrong number of parameter formats"));
    }
    Ok(Bind { portal, statement, param_formats, params, result_formats })
}

/// Reads big-endian fields off a byte slice.
pub struct Reader<'a> {
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four bytes as a number.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// The bytes up to the next zero byte, which is passed.
    pub fn bytes_to_zero(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.rest.iter().position(|b| *b == 0).ok_or(SHORT)?;
        let text = &self.rest[..len];
        self.rest = &self.rest[len + 1..];
        Ok(text)
    }

    /// A zero-terminated text.
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes_to_zero()?).map_err(|_| DecodeError::NotUtf8)
    }

    fn target(&mut self) -> Result<Target, DecodeError> {
        match self.array::<1>()? {
            [b'S'] => Ok(Target::Statement),
            [b'P'] => Ok(Target::Portal),
            _ => Err(DecodeError::Malformed("invalid DESCRIBE or CLOSE message subtype")),
        }
    }

    fn formats(&mut self) -> Result<Vec<i16>, DecodeError> {
        let count = usize::from(self.u16()?);
        let mut formats = Vec::with_capacity(count.min(self.rest.len() / 2));
        for _ in 0..count {
            let format = i16::from_be_bytes(self.array()?);
            if !(0..=1).contains(&format) {
                return Err(DecodeError::Malformed("unsupported format code"));
            }
            formats.push(format);
        }
        Ok(formats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bind_is_decoded_field_by_field() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\x01\0\0";
        let Frontend::Bind(bind) = decode(b'B', body).unwrap() else { panic!("not a bind") };
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(bind.param_formats, [1]);
        assert_eq!(bind.params, [Some(Bytes::from_static(b"hi")), None]);
        assert_eq!(bind.result_formats, [0]);
    }

    #[test]
    fn every_truncation_of_every_message_is_an_error() {
        let messages: [(u8, &[u8]); 6] = [
            (b'Q', b"select 1\0"),
            (b'P', b"n\0select $1\0\0\x01\0\0\0\x17"),
            (b'B', b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x02hi\0\x01\0\0"),
            (b'D', b"Sname\0"),
            (b'E', b"portal\0\0\0\0\x05"),
            (b'f', b"why\0"),
        ];
        for (tag, body) in messages {
            assert!(decode(tag, body).is_ok());
            for len in 0..body.len() {
                assert!(decode(tag, &body[..len]).is_err(), "{} cut at {len}", tag as char);
            }
            let longer = [body, b"\0"].concat();
            assert!(decode(tag, &longer).is_err(), "{} with a byte more", tag as char);
        }
    }

    #[test]
    fn counts_that_promise_more_than_there_is_take_no_memory() {
        assert!(decode(b'P', b"\0\0\xff\xff").is_err());
        assert!(decode(b'B', b"\0\0\0\0\xff\xff").is_err());
        assert!(decode(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xffx").is_err());
        assert!(decode(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe").is_err(), "length -2");
    }

    #[test]
    fn invalid_utf8_is_told_from_a_malformed_message() {
        assert_eq!(decode(b'Q', b"\xff\xfe\0"), Err(DecodeError::NotUtf8));
    }
}
