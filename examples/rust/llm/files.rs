// SPDX-License-Identifier: Apache-2.0
//! config.json and model.safetensors of a Llama model. Each length is checked against the file before memory is allocated or data is read.
use crate::json::Json;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const MAX_HEADER: u64 = 100 << 20;

/// The shape of a model, as config.json gives it.
pub struct Config {
    pub hidden: usize,
    pub inner: usize,
    pub layers: usize,
    pub heads: usize,
    pub heads_kv: usize,
    pub head_dim: usize,
    pub vocab: usize,
    pub positions: usize,
    pub norm_eps: f64,
    pub rope_theta: f64,
    pub tied: bool,
}

fn open(path: &Path) -> Result<(File, u64)> {
    let file = File::open(path).map_err(|_| format!("{} cannot be opened", path.display()))?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let (mut file, size) = open(path)?;
    if size > MAX_HEADER {
        return Err(format!(
            "{} has {} bytes, at most {} are read",
            path.display(),
            size,
            MAX_HEADER
        )
        .into());
    }
    let mut data = Vec::new();
    file.read_to_end(&mut data)
        .map_err(|_| format!("{} cannot be read", path.display()))?;
    Ok(data)
}

impl Config {
    pub fn read(folder: &Path) -> Result<Config> {
        let json = Json::parse(&read_file(&folder.join("config.json"))?)
            .filter(|json| matches!(json, Json::Object(_)))
            .ok_or_else(|| format!("{}/config.json is not a JSON object", folder.display()))?;
        // `otherwise` is what an absent field means.
        let whole = |name: &str, most: i64, otherwise: Option<usize>| -> Result<usize> {
            match (json.get(name), otherwise) {
                (None | Some(Json::Null), Some(value)) => Ok(value),
                (item, _) => item
                    .and_then(|item| item.whole(1.0, most as f64))
                    .map(|value| value as usize)
                    .ok_or_else(|| {
                        format!(
                            "config.json: {} must be a whole number from 1 to {}",
                            name, most
                        )
                        .into()
                    }),
            }
        };
        let real = |name: &str, otherwise: f64| {
            json.get(name)
                .map_or(otherwise, |item| item.number().unwrap_or(-1.0))
        };
        let (hidden, heads) = (
            whole("hidden_size", 1 << 20, None)?,
            whole("num_attention_heads", 1 << 12, None)?,
        );
        let config = Config {
            hidden,
            inner: whole("intermediate_size", 1 << 20, None)?,
            layers: whole("num_hidden_layers", 1 << 12, None)?,
            heads,
            heads_kv: whole("num_key_value_heads", 1 << 12, Some(heads))?,
            head_dim: whole("head_dim", 1 << 12, Some(hidden / heads))?,
            vocab: whole("vocab_size", 1 << 24, None)?,
            positions: whole("max_position_embeddings", 1 << 24, Some(2048))?,
            norm_eps: real("rms_norm_eps", 1e-6),
            rope_theta: real("rope_theta", 1e4),
            tied: matches!(json.get("tie_word_embeddings"), Some(Json::Bool(true))),
        };
        config.check(&json)?;
        Ok(config)
    }

    fn check(&self, json: &Json) -> Result<()> {
        if self.heads % self.heads_kv != 0 {
            return Err(format!(
                "config.json: num_attention_heads {} is not a multiple of num_key_value_heads {}",
                self.heads, self.heads_kv
            )
            .into());
        }
        if self.head_dim < 2 || self.head_dim % 2 != 0 {
            return Err(format!(
                "config.json: head_dim is {}, it must be even",
                self.head_dim
            )
            .into());
        }
        if !(self.norm_eps >= 0.0 && self.norm_eps < 1.0) {
            return Err("config.json: rms_norm_eps must be a number from 0 to 1".into());
        }
        if !(self.rope_theta >= 1.0 && self.rope_theta < 1e12) {
            return Err("config.json: rope_theta must be a number from 1 to 1e12".into());
        }
        if !matches!(json.get("rope_scaling"), None | Some(Json::Null)) {
            return Err("config.json: rope_scaling is not supported".into());
        }
        for (name, value) in [("model_type", "llama"), ("hidden_act", "silu")] {
            if json.get(name).and_then(Json::text) != Some(value) {
                return Err(format!(
                    "config.json: {} must be \"{}\", other models are not supported",
                    name, value
                )
                .into());
            }
        }
        Ok(())
    }
}

/// A safetensors file: the length of its header (8 bytes, little-endian), the header in JSON, and the data.
pub struct Tensors {
    path: PathBuf,
    file: File,
    header: Json,
    begin: u64,
    bytes: u64,
}

/// Where a tensor lies in the file, and how its numbers are written.
struct Place {
    begin: u64,
    count: usize,
    size: usize,
    brain: bool,
}

fn of_half(half: u16) -> f32 {
    let (exponent, fraction) = (i32::from(half >> 10 & 31), u32::from(half & 1023));
    let magnitude = match exponent {
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        0 => fraction as f32 * 2f32.powi(-24),
        _ => (fraction + 1024) as f32 * 2f32.powi(exponent - 25),
    };
    if half >> 15 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

impl Tensors {
    pub fn open(path: PathBuf) -> Result<Tensors> {
        let (mut file, size) = open(&path)?;
        let mut prefix = [0; 8];
        file.read_exact(&mut prefix).map_err(|_| {
            format!(
                "{} has {} bytes, less than a safetensors file begins with",
                path.display(),
                size
            )
        })?;
        let length = u64::from_le_bytes(prefix);
        if length > MAX_HEADER || length + 8 > size {
            return Err(format!("{}: its header has {} bytes, but the file has {}: it is cut short, or not a safetensors file", path.display(), length, size).into());
        }
        let mut text = vec![0; length as usize];
        file.read_exact(&mut text)
            .map_err(|_| format!("{} cannot be read", path.display()))?;
        let header = Json::parse(&text)
            .filter(|json| matches!(json, Json::Object(_)))
            .ok_or_else(|| format!("{}: its header is not a JSON object", path.display()))?;
        let begin = 8 + length;
        Ok(Tensors {
            path,
            file,
            header,
            begin,
            bytes: size - begin,
        })
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<Place> {
        let path = self.path.display();
        let item = self
            .header
            .get(name)
            .ok_or_else(|| format!("{} has no tensor {}", path, name))?;
        let has = item.get("shape").unwrap_or(&Json::Null);
        let extents: Option<Vec<usize>> = has
            .items()
            .iter()
            .map(|n| n.whole(0.0, 1e15).map(|n| n as usize))
            .collect();
        if extents.as_deref() != Some(shape) {
            let asked: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let found = has.to_string(); // A string is cut to 200 characters, as what only displays is not.
            return Err(format!(
                "{}: {} has the shape {:.200}, config.json asks for [{}]",
                path,
                name,
                found,
                asked.join(",")
            )
            .into());
        }
        let kind = item.get("dtype").and_then(Json::text).unwrap_or("null");
        let (size, brain) = match kind {
            "F32" => (4, false),
            "F16" => (2, false),
            "BF16" => (2, true),
            _ => {
                return Err(format!(
                    "{}: {} has the type {:.20}, expected F32, BF16 or F16",
                    path, name, kind
                )
                .into())
            }
        };
        let count: usize = shape.iter().product();
        let bytes = (count * size) as u64;
        let offsets: Vec<u64> = item
            .get("data_offsets")
            .map_or(&[][..], Json::items)
            .iter()
            .filter_map(|n| n.whole(0.0, 9e15).map(|n| n as u64))
            .collect();
        match offsets[..] {
            [begin, end] if end >= begin && end - begin == bytes => {
                if end > self.bytes {
                    return Err(format!(
                        "{} is cut short: {} ends at byte {} of the data, which has {}",
                        path, name, end, self.bytes
                    )
                    .into());
                }
                Ok(Place {
                    begin: self.begin + begin,
                    count,
                    size,
                    brain,
                })
            }
            _ => Err(format!(
                "{}: the data_offsets of {} are not those of {} bytes",
                path, name, bytes
            )
            .into()),
        }
    }

    /// Whether a tensor is there and of this shape.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.find(name, shape).map(|_| ())
    }

    /// A tensor as float32.
    pub fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let place = self.find(name, shape)?;
        let mut raw = vec![0; place.count * place.size];
        self.file
            .seek(SeekFrom::Start(place.begin))
            .and_then(|_| self.file.read_exact(&mut raw))
            .map_err(|_| format!("{}: {} cannot be read", self.path.display(), name))?;
        let two = |at: &[u8]| u16::from_le_bytes([at[0], at[1]]);
        Ok(raw
            .chunks_exact(place.size)
            .map(|at| match (place.size, place.brain) {
                (4, _) => f32::from_le_bytes([at[0], at[1], at[2], at[3]]),
                (_, true) => f32::from_bits(u32::from(two(at)) << 16),
                _ => of_half(two(at)),
            })
            .collect())
    }
}
