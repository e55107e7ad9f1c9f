//! Account numbers: opaque ones compared exactly, and IBANs whose length and check digits must be right.

use iban::Iban;

use super::code::{Code, Fault};

/// An account as lists hold it: without spaces, ASCII upper case.
///
/// # Errors
/// Characters that are not printable ASCII.
pub fn read_account(text: &str) -> Result<String, Fault> {
    if !text.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        return Err(Fault::malformed("a character that is not printable ASCII"));
    }
    Ok(text.replace(' ', "").to_ascii_uppercase())
}

/// The same for an IBAN (ISO 13616): country's length and structure, and the check digits.
///
/// # Errors
/// As [`read_account`], or it is no IBAN.
pub fn read_iban(text: &str) -> Result<String, Fault> {
    let malformed = |why| Fault::new(Code::MalformedIban, why);
    let account = read_account(text).map_err(|fault| malformed(fault.why))?;
    if account.is_empty() {
        return Ok(account);
    }
    account
        .parse::<Iban>()
        .map(|_| account)
        .map_err(|_| malformed("not an IBAN: its length or check digits are wrong"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_and_case_do_not_matter_and_check_digits_do() {
        assert_eq!(read_account("ab 12-x").unwrap(), "AB12-X");
        assert!(read_account("ab\u{a0}12").is_err());
        assert!(read_account("\u{ff21}B12").is_err());
        assert!(read_account("ab\n12").is_err());
        assert_eq!(
            read_iban("gb82 WEST 1234 5698 7654 32").unwrap(),
            "GB82WEST12345698765432"
        );
        assert!(read_iban("GB82WEST12345698765433").is_err());
        assert!(read_iban("GB82WEST1234569876543").is_err());
        assert!(read_iban("GB82-WEST-1234-5698-7654-32").is_err());
        assert!(read_iban("12345").is_err());
    }
}
