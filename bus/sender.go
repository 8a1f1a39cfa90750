package bus

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/lash-go/lash/events"
)

// headerCaller names the sender of a request from another account. The server adds it behind the headers of the client, after
// it removed those of this name. It finds only those between CR LF. The parser of this process ends lines at LF alone, skips
// lines without a name, and stops at an empty line. So a client can show a name of its own to the parser, and hide that of the
// server: [senderOf] looks for traces of that.
const headerCaller = "Nats-Request-Info"

const (
	maxHeaders = 8 // values in a request from another account
	// slackHeaders is how many bytes more a block of headers may have than its parsed form. The line that the server adds has
	// more than 50, and the forms that the parser accepts save 2 a header at most: with maxHeaders a hidden line shows.
	slackHeaders = 8
)

// unknownSize is the size of headers that this process could not find out.
const unknownSize = -1

// callerOf is the user who sent a request from another account, whose headers had size bytes on the wire. It is empty for a
// request of the own account. The server refuses a client's own request with a reply subject that starts like these.
func callerOf(reply string, h nats.Header, size int) (string, error) {
	if !strings.HasPrefix(reply, crossed) {
		return "", nil
	}
	return senderOf(h, size)
}

// senderOf is the user that the server names in a message from another account. Errors: [events.ErrInvalid] where the client
// may have written the name.
func senderOf(h nats.Header, size int) (string, error) {
	parsed, count := len("NATS/1.0\r\n\r\n"), 0
	for name, values := range h {
		for _, value := range values {
			parsed, count = parsed+len(name)+len(value)+len(": \r\n"), count+1
			if name != headerCaller && strings.Contains(name+value, headerCaller) {
				return "", fmt.Errorf("%w: a header has the name of another one", events.ErrInvalid)
			}
		}
	}
	user := ""
	if len(h[headerCaller]) == 1 {
		user = userOf(h[headerCaller][0])
	}
	switch {
	case user == "":
		return "", fmt.Errorf("%w: the request does not say whose it is", events.ErrInvalid)
	case count > maxHeaders:
		return "", fmt.Errorf("%w: has %d headers, limit is %d", events.ErrInvalid, count, maxHeaders)
	case size == unknownSize || size > parsed+slackHeaders:
		return "", fmt.Errorf("%w: the headers have %d bytes, of which %d are read", events.ErrInvalid, size, parsed)
	}
	return user, nil
}

// userOf is the user in the server's description of a client; empty where it names none.
func userOf(info string) string {
	var from struct {
		User string `json:"user"`
	}
	_ = json.Unmarshal([]byte(info), &from) // what is no JSON names none
	return from.User
}

// headersOf is how many bytes the headers of a request had on the wire. Package micro does not show the message, nor its
// size, so this reads the fields by their names; a version without them makes the size unknown.
func headersOf(req micro.Request) int {
	m := fieldOf(reflect.ValueOf(req), "msg")
	all := fieldOf(m, "wsz")
	if !all.IsValid() || !all.CanInt() {
		return unknownSize
	}
	return int(all.Int()) - len(req.Subject()) - len(req.Reply()) - len(req.Data())
}

// fieldOf is a field of a struct, or of one that a pointer is to; invalid without it.
func fieldOf(v reflect.Value, name string) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}
