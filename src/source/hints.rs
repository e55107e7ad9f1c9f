//! What to do about a syntax error.

use serde_saphyr::granit_parser::ErrorKind;

/// One line of help for the author of the file.
pub(super) const fn hint(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar => "indent with spaces, not with tabs",
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar => {
            "the closing quote is missing, here or on a line above"
        }
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape => {
            "write `\\\\` for a backslash, or use single quotes, which know no escapes"
        }
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::MismatchedFlowCollectionEnd { .. }
        | ErrorKind::InvalidFlowScalarIndent
        | ErrorKind::InvalidColonPlacement => {
            "separate with `,` and close every `[` with `]` and every `{` with `}`"
        }
        ErrorKind::MappingValueNotAllowed => {
            "indent the key like its neighbours, or quote a text that holds `: `"
        }
        ErrorKind::MissingAnchorOrAliasName
        | ErrorKind::UnexpectedCharacter { .. }
        | ErrorKind::PlainScalarStartsWithDashFlowIndicator
        | ErrorKind::InvalidTrailingDoubleQuotedScalar
        | ErrorKind::InvalidTrailingSingleQuotedScalar => {
            "quote a text that starts with a special character or holds `: `"
        }
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::SimpleKeyExpected
        | ErrorKind::InvalidSimpleKey
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::MappingKeyNotAllowed => {
            "indent keys of one map alike, and write a space after `:` and after `-`"
        }
        ErrorKind::RecursionLimitExceeded => "lists and maps are nested deeper than 64",
        ErrorKind::DirectiveDisallowed => "remove the line that starts with `%`",
        _ => "check the line and the one above it",
    }
}
