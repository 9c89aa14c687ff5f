//! Reading command lines.

/// The value of option `name`, which must be a number from `min` to `max`.
///
/// # Errors
/// It is none, or outside.
pub fn number<T>(name: &str, text: &str, min: T, max: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let wrong = || format!("{name} takes a number from {min} to {max}, not {text}");
    let value: T = text.parse().map_err(|_| wrong())?;
    if value < min || value > max { Err(wrong()) } else { Ok(value) }
}
