package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/lash-go/lash/events"
)

// separator is between the name of a server and that of its tool.
const separator = "__"

// hashed is how many digits of a hash end a name that is not the server's.
const hashed = 8

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// ToolName is the name of a server's tool in sessions: SERVER__TOOL. A name with characters that a tool cannot have, or
// with more than 64, ends with a hash of the server's name of the tool. It follows from the arguments alone.
func ToolName(server, tool string) string {
	name := server + separator + tool
	plain := notInNames.ReplaceAllString(name, "_")
	if plain == name && len(name) <= events.MaxTokenBytes {
		return name
	}
	sum := sha256.Sum256([]byte(tool))
	return plain[:min(len(plain), events.MaxTokenBytes-hashed-1)] + "-" + hex.EncodeToString(sum[:])[:hashed]
}
