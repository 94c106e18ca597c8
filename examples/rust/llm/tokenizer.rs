// SPDX-License-Identifier: Apache-2.0
//! The tokenizer of a Llama model: byte-pair encoding with the pieces and scores of a SentencePiece model (tokenizer.model).
use crate::files::{read_file, Result};
use std::collections::HashMap;
use std::path::Path;

const NORMAL: u64 = 1;
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const BYTE: u64 = 6;
const SPACE: &str = "\u{2581}";

struct Piece {
    text: Vec<u8>,
    score: f32,
    kind: u64,
}

pub struct Tokenizer {
    pieces: Vec<Piece>,
    normal: HashMap<Vec<u8>, u32>, // the pieces that a text may be made of
    bytes: [Option<u32>; 256],
    begin: u32,
    end: u32,
    unknown: u32,
}

/// A field of a message of protocol buffers.
enum Field<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

fn next_field<'a>(message: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let tag = varint(message)?;
    let length = match tag & 7 {
        0 => return Some((tag >> 3, Field::Number(varint(message)?))),
        1 => 8,
        2 => usize::try_from(varint(message)?).ok()?,
        5 => 4,
        _ => return None,
    };
    if length > message.len() {
        return None;
    }
    let (body, rest) = message.split_at(length);
    *message = rest;
    let fixed = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    Some((
        tag >> 3,
        if tag & 7 == 2 {
            Field::Bytes(body)
        } else {
            Field::Number(fixed(body))
        },
    ))
}

fn read_piece(mut message: &[u8]) -> Option<Piece> {
    let mut piece = Piece {
        text: Vec::new(),
        score: 0.0,
        kind: NORMAL,
    };
    while !message.is_empty() {
        match next_field(&mut message)? {
            (1, Field::Bytes(text)) => piece.text = text.to_vec(),
            (2, Field::Number(bits)) => piece.score = f32::from_bits(bits as u32),
            (3, Field::Number(kind)) => piece.kind = if kind < 7 { kind } else { CONTROL },
            _ => {}
        }
    }
    (!piece.score.is_nan()).then_some(piece)
}

fn read_pieces(mut message: &[u8]) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    while !message.is_empty() {
        match next_field(&mut message)? {
            (1, Field::Bytes(body)) => pieces.push(read_piece(body)?),
            (1, Field::Number(_)) => return None,
            _ => {}
        }
    }
    Some(pieces).filter(|pieces| !pieces.is_empty())
}

/// The byte that a piece like <0x0A> stands for.
fn byte_of(text: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(text)
        .ok()?
        .strip_prefix("<0x")?
        .strip_suffix('>')?;
    u8::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.len() == 2 && !digits.starts_with('+'))
}

impl Tokenizer {
    pub fn open(folder: &Path, vocab: usize) -> Result<Tokenizer> {
        let path = folder.join("tokenizer.model");
        let pieces = read_pieces(&read_file(&path)?).ok_or_else(|| {
            format!(
                "{} is cut short, or not a SentencePiece model",
                path.display()
            )
        })?;
        if pieces.len() != vocab {
            return Err(format!(
                "{} has {} pieces, but the model has {}: it belongs to another model",
                path.display(),
                pieces.len(),
                vocab
            )
            .into());
        }
        let (mut normal, mut bytes) = (HashMap::new(), [None; 256]);
        let (mut begin, mut end, mut unknown) = (None, None, None);
        for (id, piece) in (0..).zip(&pieces) {
            match piece.kind {
                BYTE => {
                    let byte = byte_of(&piece.text).ok_or_else(|| {
                        format!(
                            "{}: piece {} is of the kind byte and names none",
                            path.display(),
                            id
                        )
                    })?;
                    bytes[usize::from(byte)] = Some(id);
                }
                UNKNOWN => unknown = Some(id),
                CONTROL if piece.text == b"<s>" => begin = Some(id),
                CONTROL if piece.text == b"</s>" => end = Some(id),
                NORMAL => {
                    normal.entry(piece.text.clone()).or_insert(id);
                }
                _ => {}
            }
        }
        let none = |what: &str| format!("{} has no piece {}", path.display(), what);
        let unknown = unknown.ok_or_else(|| none("for what is unknown"))?;
        let begin = begin.ok_or_else(|| none("<s>"))?;
        let end = end.ok_or_else(|| none("</s>"))?;
        Ok(Tokenizer {
            pieces,
            normal,
            bytes,
            begin,
            end,
            unknown,
        })
    }

    /// The tokens of a text, the beginning-of-sequence token first.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        if !text.is_empty() {
            let spaced = format!("{}{}", SPACE, text.replace(' ', SPACE));
            parts = spaced.chars().map(|c| c.to_string().into_bytes()).collect();
        }
        loop {
            let mut best: Option<(f32, usize)> = None;
            for (i, pair) in parts.windows(2).enumerate() {
                if let Some(&id) = self.normal.get(&pair.concat()) {
                    let score = self.pieces[id as usize].score;
                    if best.map_or(true, |(most, _)| score > most) {
                        best = Some((score, i));
                    }
                }
            }
            match best {
                Some((_, i)) => {
                    let right = parts.remove(i + 1);
                    parts[i].extend(right);
                }
                None => break,
            }
        }
        let mut tokens = vec![self.begin];
        for part in parts {
            match self.normal.get(&part) {
                Some(&id) => tokens.push(id),
                None => tokens.extend(
                    part.iter()
                        .map(|&byte| self.bytes[usize::from(byte)].unwrap_or(self.unknown)),
                ),
            }
        }
        tokens
    }

    /// The bytes that a token stands for. `first` leaves out the space that encoding put in front.
    pub fn decode(&self, token: u32, first: bool) -> Vec<u8> {
        let piece = &self.pieces[token as usize];
        match piece.kind {
            CONTROL => Vec::new(),
            BYTE => byte_of(&piece.text).into_iter().collect(),
            _ => {
                let text = piece.text.as_slice();
                let space = SPACE.as_bytes();
                let mut out = Vec::new();
                let mut at = 0;
                while at < text.len() {
                    if text[at..].starts_with(space) {
                        if at > 0 || !first {
                            out.push(b' ');
                        }
                        at += space.len();
                    } else {
                        out.push(text[at]);
                        at += 1;
                    }
                }
                out
            }
        }
    }

    pub fn end(&self) -> u32 {
        self.end
    }
}
