package bustest

import (
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Refusals are the errors that a connection reports, as a server's refusal of a permission.
type Refusals struct {
	mu   sync.Mutex
	list []string
}

// Handler records an error. It is the error handler of a connection.
func (r *Refusals) Handler(_ *nats.Conn, _ *nats.Subscription, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, err.Error())
}

// All are the errors until now.
func (r *Refusals) All() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.list...)
}

// String has one line for each error.
func (r *Refusals) String() string { return strings.Join(r.All(), "\n") }
