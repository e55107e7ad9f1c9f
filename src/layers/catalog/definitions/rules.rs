//! What a definition says that does more than tell a model what the tool is for. By family: each counts once.

/// One pattern.
#[derive(Debug)]
pub struct DefinitionRule {
    /// Its name in findings and in the reference.
    pub id: &'static str,
    /// Which patterns count as one.
    pub family: &'static str,
    /// How sure one is of an attack where nothing else is lit.
    pub weight: f64,
    /// What it catches, why, and a false alarm that is known.
    pub about: &'static str,
    /// Over lower-case text in which every run of blanks is one blank.
    pub pattern: &'static str,
}

/// Every rule.
pub const RULES: [DefinitionRule; 12] = [
    DefinitionRule {
        id: "definition.hide_from_user",
        family: "secrecy",
        weight: 0.62,
        about: "Tells the model to keep something from its user. Known false alarm: none; a definition has no secrets to keep.",
        pattern: r"(?:do not|don't|never|without|must not|should not|avoid) (?:[a-z]+ ){0,3}?(?:tell|telling|mention|mentioning|inform|informing|notify|notifying|alert|alerting|reveal|revealing|disclose|disclosing|show|showing|explain|explaining|warn|warning)\b[^.!?]{0,60}\b(?:the |your |any )?(?:user|human|operator|customer)s?\b",
    },
    DefinitionRule {
        id: "definition.user_must_not_know",
        family: "secrecy",
        weight: 0.62,
        about: "The same from the other side: the user must not know. Known false alarm: a tool for surprises.",
        pattern: r"(?:user|human|operator|customer)s? (?:must|should|may|need|does|do|can|will) ?(?:not|never|n't) (?:[a-z]+ ){0,3}?(?:know|see|be told|be informed|be notified|be aware|notice|learn|find out)",
    },
    DefinitionRule {
        id: "definition.silently",
        family: "secrecy",
        weight: 0.4,
        about: "Asks for something to be done silently. Known false alarm: a tool that says its own failures are silent.",
        pattern: r"\b(?:silently|secretly|covertly|discreetly) (?:call|send|forward|copy|include|add|pass|read|use|invoke|run|upload|attach|bcc|execute|collect|append)",
    },
    DefinitionRule {
        id: "definition.important_block",
        family: "block",
        weight: 0.45,
        about: "Markup that sets words for the model apart from the description, such as <IMPORTANT>. Known false alarm: servers that shout at models without harm.",
        pattern: r"<(?:important|critical|system|secret|hidden|instructions?|system[-_ ]prompt|admin|override|priority|mandatory|sys)(?:[ _-][a-z]{1,20})?>",
    },
    DefinitionRule {
        id: "definition.before_any_tool",
        family: "order",
        weight: 0.38,
        about: "Puts itself, or another act, before every other tool. Known false alarm: a session's set-up tool that says it comes first.",
        pattern: r"before (?:using|calling|invoking|running|executing|you (?:use|call|run|invoke)) (?:this|any|all|every|another|other|the other|each)(?: [a-z]+){0,2}? ?(?:tool|function|action|command)s?\b",
    },
    DefinitionRule {
        id: "definition.sensitive_file",
        family: "secrets",
        weight: 0.5,
        about: "Names files of keys and settings that a tool has no business with. Known false alarm: a tool that manages such files.",
        pattern: r"(?:~|\$home|/root|/home/[a-z0-9_-]+|%userprofile%)/\.(?:ssh|aws|gnupg|kube|docker|cursor|claude|config/gcloud|netrc|npmrc|git-credentials|bash_history|zsh_history)|\bid_(?:rsa|ed25519|ecdsa)\b|/etc/(?:passwd|shadow)\b|\bmcp\.json\b|claude_desktop_config|\.aws/credentials",
    },
    DefinitionRule {
        id: "definition.take_secrets",
        family: "secrets",
        weight: 0.5,
        about: "Asks the model to read or hand over credentials. Known false alarm: a parameter that takes the caller's own key says so without such a verb.",
        pattern: r"(?:read|include|send|pass|append|attach|copy|extract|collect|retrieve|fetch|provide|gather|exfiltrate)(?: [a-z']+){0,5}? (?:api[ _-]?keys?|passwords?|credentials?|private keys?|ssh keys?|access tokens?|auth tokens?|environment variables|env vars|\.env\b|secrets)(?: [a-z']+){0,6}? (?:as|in|into|to|with|from|via|through|of the user|here)\b",
    },
    DefinitionRule {
        id: "definition.take_conversation",
        family: "conversation",
        weight: 0.5,
        about: "Wants the conversation, the system prompt or the names of other tools as an argument. Known false alarm: a tool that summarises the conversation for its user.",
        pattern: r"(?:full|entire|complete|whole|previous|raw|verbatim|all)(?: of)?(?: the| your| our| this)? (?:chat |user )?(?:conversation|chat history|message history|conversation history|system prompt|context window|dialog(?:ue)?|prior messages|previous messages|tool outputs)\b",
    },
    DefinitionRule {
        id: "definition.content_as_argument",
        family: "smuggle",
        weight: 0.45,
        about: "Has the model put what it has read elsewhere into an argument of this tool. Known false alarm: tools that take a file's text on purpose.",
        pattern: r"(?:pass|put|include|provide|insert|send|place|write|add)(?: [a-z'’]+){0,3}? (?:contents?|text|output|result|data|value)s?(?: of)?(?: [a-z'’./~_-]+){0,4}? (?:as|in|into|to|using|via|through)(?: the)? [`'\x22“]?[a-z_]+[`'\x22”]?(?: (?:parameter|argument|field|input|param))",
    },
    DefinitionRule {
        id: "definition.otherwise_fails",
        family: "threat",
        weight: 0.3,
        about: "Threatens that the tool, or something worse, fails unless the model obeys. Known false alarm: a required parameter.",
        pattern: r"(?:otherwise|or else|if you (?:do not|don't|fail to)|failure to)[^.!?]{0,60}(?:will not work|won't work|not work|will be (?:locked|lost|deleted|shut down|terminated|disabled)|will crash|will die|not function)",
    },
    DefinitionRule {
        id: "definition.addresses_model",
        family: "address",
        weight: 0.15,
        about: "Speaks to the model as such. Many honest definitions do: it only adds to others.",
        pattern: r"\b(?:ai (?:assistant|agent|model|system)s?|(?:language )?models?|llms?|assistants?|agents?|you) (?:must|are required to|shall|have to|should always|need to always|are instructed)\b",
    },
    DefinitionRule {
        id: "definition.reroute",
        family: "shadow",
        weight: 0.45,
        about: "Changes where another tool sends something. Known false alarm: a gateway that documents its own routing.",
        pattern: r"(?:all|every|any|each) (?:e-?mails?|messages?|payments?|transfers?|requests?|files?|notifications?|data|transactions?) (?:must|should|needs? to|has to|have to|will|are to) (?:be |first be )?(?:sent|forwarded|redirected|routed|copied|addressed|transferred|uploaded|bcc'?d)",
    },
];

/// Directions about another tool of the same list, which this rule needs by name.
pub const SHADOW: DefinitionRule = DefinitionRule {
    id: "definition.other_tool",
    family: "shadow",
    weight: 0.55,
    about: "Tells the model how to use another tool of the list: shadowing. Known false alarm: a note that two tools exclude each other.",
    pattern: r"(?:instead of|in place of|rather than|when(?:ever)?|before|after|every time|each time|always)(?: [a-z'’]+){0,6}? ?[`'\x22“(]?TOOL[`'\x22”)]?[^.!?\n]{0,80}?(?:must|should always|always|change|redirect|replace|override|also (?:call|send|add|include)|bcc|first call|is (?:deprecated|disabled|unsafe|broken|insecure|forbidden)|do not use|never use)",
};
