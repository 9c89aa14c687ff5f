//! Bytes of messages: little-endian, written and read field by field.
//!
//! Promises that reading never panics and never reserves more memory than the input can fill,
//! whatever the bytes are. A reader stops after the fields it knows: what a newer version appends
//! to a message is skipped by the message's length prefix.

use std::fmt;

use block::{Dba, InstanceNo, Mode, ObjId, Scn, Version, Xid};

/// Why bytes from a peer are not a message. Always the peer's fault (or a newer peer's), never
/// ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The input ends inside a field.
    Short,
    /// A tag no version of ours has written; `what` names the type.
    Tag { what: &'static str, tag: u8 },
    /// A length or count beyond its limit.
    Limit { what: &'static str, value: u64 },
    /// A frame of a major version this program cannot read.
    Version(u8),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Short => f.write_str("message ends inside a field"),
            DecodeError::Tag { what, tag } => write!(f, "unknown {what} tag {tag}"),
            DecodeError::Limit { what, value } => {
                write!(f, "{what} of {value} is beyond its limit")
            }
            DecodeError::Version(v) => write!(f, "frame version {v} is not supported"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A cursor over received bytes.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        if self.0.len() < n {
            return Err(DecodeError::Short);
        }
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        Ok(head)
    }

    pub fn left(&self) -> usize {
        self.0.len()
    }
}

/// A value that has bytes on the wire.
pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! wire_int {
    ($($t:ty),*) => {$(
        impl Wire for $t {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let mut bytes = [0; size_of::<$t>()];
                bytes.copy_from_slice(r.take(size_of::<$t>())?);
                Ok(<$t>::from_le_bytes(bytes))
            }
        }
    )*};
}
wire_int!(u8, u16, u32, u64);

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::get(r)? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(DecodeError::Tag { what: "flag", tag }),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(v) = self {
            v.put(out);
        }
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if bool::get(r)? { Ok(Some(T::get(r)?)) } else { Ok(None) }
    }
}

/// Lists: a count, then the elements. Bytes have an implementation of their own below.
pub(crate) trait Element: Wire {}

impl<T: Element> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.len()).expect("a message holds fewer than 2^32 elements");
        count.put(out);
        for v in self {
            v.put(out);
        }
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = u32::get(r)? as usize;
        // Every element takes a byte at least: a forged count must not reserve memory.
        if count > r.left() {
            return Err(DecodeError::Limit { what: "count", value: count as u64 });
        }
        // Nor may a count that does fit reserve many times its bytes.
        let mut list = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            list.push(T::get(r)?);
        }
        Ok(list)
    }
}

impl Wire for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.len()).expect("an image is shorter than 4 GiB");
        count.put(out);
        out.extend_from_slice(self);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = u32::get(r)? as usize;
        Ok(r.take(count)?.to_vec())
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::get(r)?, B::get(r)?))
    }
}
impl<A: Wire, B: Wire> Element for (A, B) {}

impl Wire for Dba {
    fn put(&self, out: &mut Vec<u8>) {
        self.file.put(out);
        self.block.put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Dba { file: Wire::get(r)?, block: Wire::get(r)? })
    }
}
impl Element for Dba {}

impl Wire for Version {
    fn put(&self, out: &mut Vec<u8>) {
        self.format.put(out);
        self.count.put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Version { format: Wire::get(r)?, count: Wire::get(r)? })
    }
}

impl Wire for Xid {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_u64().put(out);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Xid::from_u64(Wire::get(r)?))
    }
}

impl Wire for Mode {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Mode::N => 0,
            Mode::S => 1,
            Mode::X => 2,
        });
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::get(r)? {
            0 => Ok(Mode::N),
            1 => Ok(Mode::S),
            2 => Ok(Mode::X),
            tag => Err(DecodeError::Tag { what: "mode", tag }),
        }
    }
}

impl Wire for InstanceNo {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let no = u8::get(r)?;
        // Numbers index bit sets further in: nothing outside the range may come from a peer.
        if no == 0 || no > block::INSTANCES_MAX {
            return Err(DecodeError::Limit { what: "instance number", value: u64::from(no) });
        }
        Ok(InstanceNo(no))
    }
}
impl Element for InstanceNo {}

/// Newtypes around one integer.
macro_rules! wire_newtype {
    ($($t:path),* $(,)?) => {$(
        impl $crate::wire::Wire for $t {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn get(
                r: &mut $crate::wire::Reader<'_>,
            ) -> Result<Self, $crate::wire::DecodeError> {
                Ok($t($crate::wire::Wire::get(r)?))
            }
        }
        impl $crate::wire::Element for $t {}
    )*};
}
pub(crate) use wire_newtype;
wire_newtype!(Scn, ObjId);

/// Structs: the fields in order.
macro_rules! wire_struct {
    ($t:ident { $($f:ident),* $(,)? }) => {
        impl $crate::wire::Wire for $t {
            fn put(&self, out: &mut Vec<u8>) {
                $( $crate::wire::Wire::put(&self.$f, out); )*
            }
            fn get(
                r: &mut $crate::wire::Reader<'_>,
            ) -> Result<Self, $crate::wire::DecodeError> {
                Ok($t { $( $f: $crate::wire::Wire::get(r)? ),* })
            }
        }
        impl $crate::wire::Element for $t {}
    };
}
pub(crate) use wire_struct;

/// Enums: a tag byte, then the fields in order. Tags are promises: never reuse one.
macro_rules! wire_enum {
    ($t:ident { $( $tag:literal => $v:ident $( { $($f:ident),* $(,)? } )? ),* $(,)? }) => {
        impl $crate::wire::Wire for $t {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $( $t::$v $( { $($f),* } )? => {
                        out.push($tag);
                        $( $( $crate::wire::Wire::put($f, out); )* )?
                    } )*
                }
            }
            fn get(
                r: &mut $crate::wire::Reader<'_>,
            ) -> Result<Self, $crate::wire::DecodeError> {
                match <u8 as $crate::wire::Wire>::get(r)? {
                    $( $tag => Ok($t::$v $( { $( $f: $crate::wire::Wire::get(r)? ),* } )? ), )*
                    tag => Err($crate::wire::DecodeError::Tag { what: stringify!($t), tag }),
                }
            }
        }
        impl $crate::wire::Element for $t {}
    };
}
pub(crate) use wire_enum;
