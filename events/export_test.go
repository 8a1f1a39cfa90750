package events

// Encoded lists unexported types of this package that are encoded.
func Encoded() []any { return []any{archiveHeader{}, archiveEnd{}, everything{}} }
