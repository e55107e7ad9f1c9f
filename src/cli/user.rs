//! Who runs the command, as the operating system vouches for it: not the environment, which anybody can set.

/// The user's name, or the numeric id where it has none.
#[cfg(unix)]
pub fn name() -> String {
    let id = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(&users, id).unwrap_or_else(|| id.to_string())
}

/// The platform does not tell.
#[cfg(not(unix))]
pub fn name() -> String {
    "unknown".to_owned()
}

/// The name of a user id in a file such as `/etc/passwd` (`passwd(5)`): `name:password:uid:…`.
#[cfg(unix)]
fn name_of(users: &str, id: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let found = fields.nth(1)?.parse() == Ok(id);
        (found && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_user_id_is_looked_up_by_its_own_field() {
        let users = "# local\nroot:x:0:0::/root:/bin/sh\nann:x:1000:0:Ann:/home/ann:/bin/sh\n";
        assert_eq!(name_of(users, 1000).as_deref(), Some("ann"));
        assert_eq!(name_of(users, 0).as_deref(), Some("root"));
        assert_eq!(name_of(users, 7), None);
    }
}
