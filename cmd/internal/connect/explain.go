package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// Roles of users, as in deploy/nats.
const (
	Node    = "node"
	Host    = "host"
	Auditor = "auditor"
)

// NoJetStream is the advice where servers accept connections, and JetStream does not answer.
const NoJetStream = "the servers accept connections, but JetStream does not answer: of a cluster more than half of the servers must run, two of three. " +
	"Start the missing ones; /healthz of each says what it lacks. --nats URL names other servers"

// Error codes of JetStream.
const (
	errNoCluster    = 10074 // replicas on a server that is no cluster
	errSizeRequired = 10113 // a stream without a size, in an account that wants one
	errMaxConsumers = 10026
)

// Explain adds advice to an error of a connection. role is the role that permits the operation; away is the advice
// where the servers do not answer.
func (f *Flags) Explain(err error, role, unreachable string) error {
	advice := unreachable
	var refused *jetstream.APIError
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return fmt.Errorf("no sessions with prefix %q here: --prefix NAME names another, and a node makes what is missing (%w)", f.Prefix, err)
	case errors.Is(err, bus.ErrInbox):
		user, name := f.user()
		advice = fmt.Sprintf("%s may not hear %s.>: give --inbox %s.%s", user, cmp.Or(f.Inbox, DefaultInbox), DefaultInbox, name)
	case errors.Is(err, nats.ErrPermissionViolation):
		user, _ := f.user()
		advice = fmt.Sprintf("%s has no permission for that: a user of role %s has it, --tls-cert and --tls-key name its certificate", user, role)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		advice = "the servers do not accept these credentials: --store DIR has the key of an embedded server; --tls-cert with --tls-key, --creds, or NAME:PASSWORD@ in the URL of --nats, are a user's"
		if f.TLSCert != "" {
			user, _ := f.user()
			advice = fmt.Sprintf("the servers do not know %s: add-user.sh makes its line in the file of its tenant, which they read when they are reloaded", user)
		}
	case errors.As(err, &refused) && refused.ErrorCode == errNoCluster:
		advice = "these servers are no cluster: --set replicas=1"
	case errors.As(err, &refused) && refused.ErrorCode == errSizeRequired:
		advice = "the account wants a size for each stream (max_bytes_required), and lash gives none: use an account without it"
	case errors.As(err, &refused) && refused.ErrorCode == errMaxConsumers:
		advice = "the account has too few consumers (max_consumers): use an account without that limit"
	case errors.Is(err, bus.ErrFull):
		advice = "the account has too few streams (max_streams): a node has some of its own, and each hot session has one"
	case errors.Is(err, events.ErrOutcomeUnknown): // the connection stands; package bus maps errors of requests alone
		advice = NoJetStream
	case errors.Is(err, nats.ErrNkeysNotSupported):
		advice = "another server listens where the embedded server of the store did: does its node run? --nats URL names other servers"
	case errors.As(err, new(x509.HostnameError)):
		advice = "the servers' certificate has other names: --nats has to have one of them"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		advice = "the servers' certificate is of no authority known here: --tls-ca FILE names theirs"
	case isRefusedCertificate(err):
		advice = "the servers refuse this certificate, or that there is none: --tls-cert and --tls-key are a user's"
	case errors.As(err, &refused):
		advice = "the servers run, and refuse this: OPERATING.md says what a node needs of an account"
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// Final reports whether the servers refused the user. A retry does not help then.
func Final(err error) bool {
	return errors.Is(err, bus.ErrInbox) || errors.Is(err, nats.ErrPermissionViolation)
}

// EndOnRefusal returns a context that ends where servers refuse a request, because a refused request has no response.
// Its cause is [nats.ErrPermissionViolation]. The option must follow those of [Flags.Options]. Other errors of servers
// go to warn.
func EndOnRefusal(ctx context.Context, warn io.Writer) (context.Context, context.CancelFunc, nats.Option) {
	ctx, end := context.WithCancelCause(ctx)
	return ctx, func() { end(nil) }, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), "permissions violation for publish") {
			end(err)
			return
		}
		printError(warn, err)
	})
}

// Refused is the refusal that ended a context of [EndOnRefusal]; nil where there was none.
func Refused(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, nats.ErrPermissionViolation) {
		return err
	}
	return nil
}

// isRefusedCertificate reports whether the server ended the handshake. It sends an alert or closes the connection, and
// the close may arrive first.
func isRefusedCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	closed := errors.Is(err, nats.ErrTLS) && (ok || errors.Is(err, io.EOF))
	return closed || ok && op.Op == "remote error" // the name of an alert in crypto/tls
}

// user is the user by its certificate, and the user's name.
func (f *Flags) user() (user, name string) {
	cert, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
	if err != nil || cert.Leaf == nil || len(cert.Leaf.EmailAddresses) == 0 {
		return "this user", "NAME"
	}
	user = cert.Leaf.EmailAddresses[0]
	name, _, _ = strings.Cut(user, "@")
	return "user " + user, name
}

// Advised adds to an error of a session's content what the user can do: a flag or a command. Other errors stay as they are.
func Advised(err error) error {
	advice := ""
	if lost, ok := errors.AsType[*bus.CutOffError](err); ok {
		if advice = "lash-node fork "; lost.Last == 0 {
			advice = "lash-node erase "
		}
		advice += string(lost.Session)
	} else if errors.As(err, new(*events.KeyError)) {
		advice = "--bodies-key FILE"
	}
	if advice == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}
