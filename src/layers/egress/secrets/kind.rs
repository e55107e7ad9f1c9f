//! What a secret is: its class, which policies name, and its kind, which findings name.

/// What policies switch on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Keys, tokens and passwords, told by their shape.
    Credentials,
    /// Secrets that the deployment has registered, and those that the proxy itself holds.
    Registered,
    /// Values that a tool's output gave for this session only.
    Private,
    /// Numbers of payment cards.
    Cards,
    /// Paths of files that hold credentials.
    CredentialFiles,
}

impl Class {
    /// Those that are told from the text alone.
    pub const SCANNED: [Self; 4] = [
        Self::Credentials,
        Self::Registered,
        Self::Cards,
        Self::CredentialFiles,
    ];

    /// The word in policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::Registered => "registered",
            Self::Private => "private",
            Self::Cards => "cards",
            Self::CredentialFiles => "credential_files",
        }
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident $word:literal $class:ident,)+) => {
        /// What was found. The list is closed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word in findings.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// What switches it on.
            pub const fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)+ }
            }
        }
    };
}

kinds! {
    /// A token of GitHub.
    GitHub "github_token" Credentials,
    /// A token of GitLab.
    GitLab "gitlab_token" Credentials,
    /// An access key id of AWS, or its secret behind its name.
    Aws "aws_key" Credentials,
    /// An API key, OAuth token or client secret of Google.
    Google "google_key" Credentials,
    /// An account key, connection string, signature or client secret of Azure.
    Azure "azure_key" Credentials,
    /// A token or webhook of Slack.
    Slack "slack_token" Credentials,
    /// A live key or signing secret of Stripe.
    Stripe "stripe_key" Credentials,
    /// A key of a model provider.
    Model "model_provider_key" Credentials,
    /// A token of a package registry: npm, `PyPI`, `RubyGems`, Docker.
    Registry "package_registry_token" Credentials,
    /// A key of a service that sends mail or messages: `SendGrid`, Twilio, Mailgun, Telegram, Discord.
    Messaging "messaging_key" Credentials,
    /// A token of another service that marks its tokens.
    Service "service_token" Credentials,
    /// A JSON Web Token.
    Jwt "jwt" Credentials,
    /// A private key: PEM, `OpenSSH`, PGP, `PuTTY`, age.
    PrivateKey "private_key" Credentials,
    /// A password in a URL.
    UrlPassword "url_password" Credentials,
    /// A password in a connection string.
    ConnectionString "connection_string" Credentials,
    /// A value of `Authorization`: bearer or basic.
    Authorization "authorization" Credentials,
    /// A line of a shadow file.
    Shadow "password_hash" Credentials,
    /// An entry of a netrc file, or a login in a config of kubectl or docker.
    LoginFile "login_file" Credentials,
    /// A registered secret.
    Registered "registered_secret" Registered,
    /// A private value of this session.
    Private "private_value" Private,
    /// The number of a payment card.
    Card "card_number" Cards,
    /// The path of a file that holds credentials.
    CredentialFile "credential_file" CredentialFiles,
}
