// SPDX-License-Identifier: Apache-2.0
//! A strict reader of JSON, for the two headers that a model has. A program of your own would use a crate such as serde_json.
use std::fmt;

pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

const MAX_DEPTH: usize = 64;

impl Json {
    /// The value that the whole text is; white space may follow it.
    pub fn parse(text: &[u8]) -> Option<Json> {
        let mut reader = Reader {
            text: std::str::from_utf8(text).ok()?.as_bytes(),
            at: 0,
        };
        let value = reader.value(0)?;
        reader.space();
        (reader.at == text.len()).then_some(value)
    }

    /// The field of an object; None too where this is no object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            _ => None,
        }
    }

    pub fn items(&self) -> &[Json] {
        match self {
            Json::Array(items) => items,
            _ => &[],
        }
    }

    pub fn number(&self) -> Option<f64> {
        match self {
            Json::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A whole number from `least` to `most`. Numbers of JSON are doubles here, exact up to 2^53.
    pub fn whole(&self, least: f64, most: f64) -> Option<i64> {
        self.number()
            .filter(|n| *n >= least && *n <= most && n.fract() == 0.0)
            .map(|n| n as i64)
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => write!(f, "null"),
            Json::Bool(value) => write!(f, "{}", value),
            Json::Number(value) => write!(f, "{}", value),
            Json::Text(value) => write!(f, "{:?}", value),
            Json::Object(_) => write!(f, "{{...}}"),
            Json::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "[" } else { "," }, item)?;
                }
                write!(f, "{}", if items.is_empty() { "[]" } else { "]" })
            }
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: &str) -> Option<()> {
        self.text[self.at..]
            .starts_with(wanted.as_bytes())
            .then(|| self.at += wanted.len())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.space();
        match self.peek() {
            _ if depth > MAX_DEPTH => None,
            b'{' => self
                .list(b'}', |reader| {
                    let name = reader.string()?;
                    reader.space();
                    reader.take(":")?;
                    Some((name, reader.value(depth + 1)?))
                })
                .map(Json::Object),
            b'[' => self
                .list(b']', |reader| reader.value(depth + 1))
                .map(Json::Array),
            b'"' => self.string().map(Json::Text),
            b't' => self.take("true").map(|_| Json::Bool(true)),
            b'f' => self.take("false").map(|_| Json::Bool(false)),
            b'n' => self.take("null").map(|_| Json::Null),
            _ => self.numeral(),
        }
    }

    /// What stands between brackets, separated by commas.
    fn list<T>(&mut self, end: u8, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.peek() == end {
            self.at += 1;
            return Some(items);
        }
        loop {
            self.space();
            items.push(item(self)?);
            self.space();
            let next = self.peek();
            self.at += 1;
            match next {
                b',' => {}
                _ if next == end => return Some(items),
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut units = Vec::new();
        loop {
            let start = self.at;
            while !matches!(self.peek(), b'"' | b'\\' | 0..=0x1f) {
                self.at += 1;
            }
            units.extend_from_slice(&self.text[start..self.at]);
            let stop = self.peek();
            self.at += 1;
            match stop {
                b'"' => return String::from_utf8(units).ok(),
                b'\\' => {
                    let mut bytes = [0; 4];
                    units.extend_from_slice(self.escape()?.encode_utf8(&mut bytes).as_bytes());
                }
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let kind = self.peek();
        self.at += 1;
        Some(match kind {
            b'"' | b'\\' | b'/' => kind as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.unit()?;
                let mut units = vec![high];
                if (0xd800..0xdc00).contains(&high) {
                    self.take("\\u")?;
                    units.push(self.unit()?);
                }
                char::decode_utf16(units).next()?.ok()?
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits
            .iter()
            .try_fold(0, |n, &d| Some(n << 4 | (d as char).to_digit(16)? as u16))
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn numeral(&mut self) -> Option<Json> {
        let start = self.at;
        let _ = self.take("-");
        let zero = self.peek() == b'0';
        let first = self.at;
        self.digits()?;
        if zero && self.at > first + 1 {
            return None;
        }
        if self.take(".").is_some() {
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            let _ = self.take("+").or_else(|| self.take("-"));
            self.digits()?;
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).ok()?;
        text.parse().ok().map(Json::Number)
    }
}
