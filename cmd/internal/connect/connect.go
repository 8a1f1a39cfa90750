// Package connect has the connection flags that the programs share.
package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/session/keyring"
)

// Flags are the flags of a connection to NATS servers.
type Flags struct {
	Creds   string `help:"Credentials file for --nats." placeholder:"FILE" type:"path"`
	TLSCA   string `name:"tls-ca" help:"Certificate authority of the servers." placeholder:"FILE" type:"path"`
	TLSCert string `name:"tls-cert" help:"Client certificate." placeholder:"FILE" type:"path"`
	TLSKey  string `name:"tls-key" help:"Key of the client certificate." placeholder:"FILE" type:"path"`
	Prefix  string `help:"Prefix of every stream, bucket and subject." default:"lash"`
	Inbox   string `help:"Prefix of the subjects at which this user receives replies; with the permissions of deploy/nats it is _INBOX.USER. Defaults to _INBOX." default:"_INBOX" placeholder:"NAME"`
	BodiesFlags
}

// BodiesFlags name the keys of bodies.
type BodiesFlags struct {
	Bodies string `name:"bodies-key" help:"File of the keys that encrypt what sessions say: lash-node keys bodies makes one." placeholder:"FILE" type:"path"`
}

type flag struct{ name, value, unless string }

// files are the flags that name files.
func (f *Flags) files() []flag {
	return []flag{{"creds", f.Creds, ""}, {"tls-ca", f.TLSCA, ""}, {"tls-cert", f.TLSCert, ""}, {"tls-key", f.TLSKey, ""}}
}

// Named reports whether a flag names a file.
func (f *Flags) Named() bool {
	return slices.ContainsFunc(f.files(), func(f flag) bool { return f.value != "" })
}

// Defaults of flags.
const (
	DefaultStore = ".lash" // directory of an embedded server
	DefaultInbox = "_INBOX"
)

// Where are the flags for another command line, each after a space. Flags with their default are left out.
func (f *Flags) Where() string {
	where := ""
	for _, flag := range append(f.files(), flag{"bodies-key", f.Bodies, ""}, flag{"prefix", f.Prefix, events.DefaultPrefix}, flag{"inbox", f.Inbox, DefaultInbox}) {
		if flag.value != flag.unless {
			where += " --" + flag.name + " " + Quoted(flag.value)
		}
	}
	return where
}

// Quoted is a word, quoted for a shell where necessary.
func Quoted(text string) string {
	safe := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:,@+=%", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !safe(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// BodiesKeys reads the keys of bodies; nil without the flag.
func (f *BodiesFlags) BodiesKeys() (*bodykey.Keys, error) {
	if f.Bodies == "" {
		return nil, nil //nolint:nilnil // no keys
	}
	if err := program.CheckFile(f.Bodies); err != nil {
		return nil, fmt.Errorf("--bodies-key: %w", err)
	}
	keys, err := keyring.LoadBodies(f.Bodies)
	if err != nil {
		return nil, fmt.Errorf("--bodies-key: %w", err)
	}
	return keys, nil
}

// Options are the options of a connection to an address. It is an error if a named file does not exist. For the
// address of a store's embedded server, without named credentials, it uses the credentials of the store; an empty store
// has none. Later errors of servers go to warn.
func (f *Flags) Options(address, store string, warn io.Writer) ([]nats.Option, error) {
	var errs []error
	if (f.TLSCert == "") != (f.TLSKey == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key go together"))
	}
	for _, flag := range f.files() {
		if flag.value == "" {
			continue
		}
		if err := program.CheckFile(flag.value); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag.name, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	opts := []nats.Option{nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		printError(warn, err) // the library's own handler would write to standard error
	})}
	if f.Creds != "" {
		opts = append(opts, nats.UserCredentials(f.Creds))
	} else if store == "" {
		// the caller has credentials of its own
	} else if own, err := busembed.ReadAccess(store); err == nil && own.URL != "" && same(own.URL, address) {
		opts = append(opts, own.Option())
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if f.TLSCA != "" {
		opts = append(opts, nats.RootCAs(f.TLSCA))
	}
	if f.TLSCert != "" {
		opts = append(opts, nats.ClientCert(f.TLSCert, f.TLSKey))
	}
	return opts, nil
}

// Open opens servers by open, which is [bus.Open] or [bus.OpenReader]. Servers that the user named need not be the store's, although they
// listen where those did: without a key of their own they get none. To [bus.Config.Pending] the opening is one request.
func Open(ctx context.Context, open func(context.Context, bus.Config) (*bus.Bus, error), cfg bus.Config, named bool) (*bus.Bus, error) {
	if cfg.Pending != nil {
		defer cfg.Pending()()
	}
	b, err := open(ctx, cfg)
	if named && errors.Is(err, nats.ErrNkeysNotSupported) {
		cfg.Options = append(slices.Clip(cfg.Options), func(o *nats.Options) error {
			o.Nkey, o.SignatureCB = "", nil
			return nil
		})
		return open(ctx, cfg)
	}
	return b, err
}

// Pending prints that a command waits for servers, once a request has had no answer for two seconds. It is a
// [bus.Config.Pending].
func Pending(s *program.Streams, servers string) func() (ended func()) {
	return s.WaitNoter("the servers at %s", bus.WithoutPasswords(servers))
}

func printError(warn io.Writer, err error) { _, _ = fmt.Fprintf(warn, "nats: %v\n", err) }

// same reports whether two URLs name the same port of this machine.
func same(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	return err == nil && err2 == nil && x.Port() == y.Port() && busembed.Loopback(x.Hostname()) && busembed.Loopback(y.Hostname())
}
