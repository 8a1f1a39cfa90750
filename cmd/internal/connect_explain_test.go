package internal_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/events"
)

// TestRefusedCertificate has each way in which a server refuses a certificate, and two errors of other causes.
func TestRefusedCertificate(t *testing.T) {
	t.Parallel()
	write := &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	for name, tc := range map[string]struct {
		err     error
		refused bool
	}{
		"alert":        {&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, true},
		"closed":       {fmt.Errorf("%w: closed: %w", nats.ErrTLS, io.EOF), true},
		"broken_pipe":  {fmt.Errorf("%w: closed: %w", nats.ErrTLS, write), true},
		"no_tls":       {fmt.Errorf("%w: %w", nats.ErrTLS, tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), false},
		"nobody_there": {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false},
	} {
		got := (&connect.Flags{}).Explain(tc.err, connect.Host, "is the node running?").Error()
		if strings.Contains(got, "--tls-cert and --tls-key are a user's") != tc.refused || strings.Contains(got, "is the node running?") == tc.refused {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestKeyOfAnotherServer has a server without keys where the store's embedded server listened.
func TestKeyOfAnotherServer(t *testing.T) {
	t.Parallel()
	err := (&connect.Flags{}).Explain(fmt.Errorf("connect: %w", nats.ErrNkeysNotSupported), connect.Host, "is the node running?")
	if !strings.Contains(err.Error(), "another server listens") || strings.Contains(err.Error(), "is the node running?") {
		t.Errorf("got %q, want the other server named", err)
	}
}

// TestLimitsOfAccounts has servers that refuse what a node needs: the advice is about the account, and not about servers that do not run.
func TestLimitsOfAccounts(t *testing.T) {
	t.Parallel()
	for code, want := range map[jetstream.ErrorCode]string{10113: "max_bytes_required", 10026: "max_consumers", 10074: "--set replicas=1", 10052: "OPERATING.md"} {
		err := (&connect.Flags{}).Explain(fmt.Errorf("open bus: %w", &jetstream.APIError{ErrorCode: code}), connect.Node, "do the servers run?")
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "do the servers run?") {
			t.Errorf("%d: got %q, want %s", code, err, want)
		}
	}
	full := (&connect.Flags{}).Explain(fmt.Errorf("create stream: %w", bus.ErrFull), connect.Node, "do the servers run?")
	if !strings.Contains(full.Error(), "max_streams") {
		t.Errorf("got %q, want max_streams", full)
	}
}

// TestUnknownCertificate has a user with a certificate whom the servers do not know.
func TestUnknownCertificate(t *testing.T) {
	t.Parallel()
	err := (&connect.Flags{TLSCert: "node.pem"}).Explain(fmt.Errorf("connect: %w", nats.ErrAuthorization), connect.Node, "")
	if !strings.Contains(err.Error(), "do not know this user: add-user.sh") {
		t.Errorf("got %q, want what makes the user known", err)
	}
}

// TestAdvised: a session's content that is lost or locked comes with the command or the flag that helps. Others come as they are.
func TestAdvised(t *testing.T) {
	t.Parallel()
	other := errors.New("it rains")
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"all lost": {fmt.Errorf("fork: %w", &bus.CutOffError{Session: "s1", Known: 5}), ": lash-node erase s1"},
		"lost":     {fmt.Errorf("fork: %w", &bus.CutOffError{Session: "s1", Last: 3, Known: 5}), ": lash-node fork s1"},
		"locked":   {fmt.Errorf("show: %w", &events.KeyError{ID: 7}), "key 7, which is not here: --bodies-key FILE"},
		"other":    {other, "it rains"},
	} {
		if got := connect.Advised(tc.err); !errors.Is(got, tc.err) || !strings.HasSuffix(got.Error(), tc.want) {
			t.Errorf("%s: got %q, want its end to be %q", name, got, tc.want)
		}
	}
	if got := connect.Advised(other); got != other { //nolint:errorlint // it is the same one
		t.Errorf("got %v, want the error itself", got)
	}
}
