package events

// Encoded has the types of this package that are encoded and not exported.
func Encoded() []any { return []any{archiveHeader{}, archiveEnd{}, everything{}} }
