package bus

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// rejectedFor is how long servers may refuse the user of a connection that they had accepted before it ends.
	rejectedFor = 30 * time.Second
	// rejectedGap is the time without a refusal after which the next one is the first again.
	rejectedGap = 5 * time.Second
)

// patience keeps a connection whose user is refused for a while. Without it the client ends a connection at the second refusal, and all
// nodes of a fleet end where a reload of the servers is wrong for a second. It is the last option: it wraps the handler of errors, which
// gets the first refusal of a row. The client calls the handler of a connection for one error after the other.
func patience(o *nats.Options) error {
	o.IgnoreAuthErrorAbort = true
	report := o.AsyncErrorCB
	var first, last time.Time
	o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) {
		repeated := false
		if isRefusedUser(err) {
			now := time.Now()
			if repeated = now.Sub(last) <= rejectedGap; !repeated {
				first = now
			}
			if last = now; now.Sub(first) > rejectedFor {
				nc.Close()
			}
		}
		if report != nil && !repeated {
			report(nc, sub, err)
		}
	}
	return nil
}

// isRefusedUser reports whether servers refused the credentials of a connection.
func isRefusedUser(err error) bool {
	for _, refusal := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
