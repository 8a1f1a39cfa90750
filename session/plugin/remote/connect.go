package remote

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/localfile"
)

// connection is a JSON file with the address of the servers and the credentials of a plugin: a key, or a certificate.
type connection struct {
	URL   string `json:"url"`
	Seed  string `json:"seed"`     // of an nkey
	CA    string `json:"tls_ca"`   // file of the authority of the servers
	Cert  string `json:"tls_cert"` // file of the plugin's certificate
	Key   string `json:"tls_key"`  // file of its key
	Inbox string `json:"inbox"`    // prefix of the subjects of answers. Defaults to "_INBOX"

	seedFile string // file with the seed, which only the environment names
}

// Connect connects a plugin with the credentials in a JSON file. Its fields: url; seed of an nkey, or tls_cert and tls_key,
// the paths of a certificate and its key; tls_ca, the path of the authority of the servers; inbox, the prefix of the
// subjects of answers. An embedded server writes such a file for each plugin. Errors: those of the file, which name it,
// and those of [Dial].
func Connect(file string, more ...nats.Option) (*nats.Conn, error) {
	c, opts, err := readConnection(file)
	if err != nil {
		return nil, err
	}
	return Dial(c.URL, append(opts, more...)...)
}

// readConnection reads a connection's file. Its errors name it.
func readConnection(file string) (c connection, opts []nats.Option, err error) {
	data, err := localfile.Read(file, localfile.MaxBytes)
	if err != nil {
		return c, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&c); err == nil {
		err = c.check(true)
	}
	if err == nil {
		opts, err = c.options()
	}
	if err != nil {
		return c, nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, opts, nil
}

// FromEnv connects a plugin with the variables LASH_PLUGIN… of the protocol, which getenv looks up, for example
// [os.Getenv]. LASH_PLUGIN_CONNECTION names a file as [Connect] reads it. FromEnv returns the plugin's name and a [Config]
// with the connection, the prefix and the instance's name. Errors: an [*events.FieldError] of a variable whose value is wrong, and
// those of [Dial].
func FromEnv(getenv func(variable string) string) (name string, cfg Config, err error) {
	env := func(variable string) string { return getenv(prefix + variable) }
	name, cfg.Prefix, cfg.Instance = env(""), env("_PREFIX"), env("_INSTANCE")
	if name == "" {
		return "", cfg, wrong(prefix, errors.New("is required: the name of the plugin"))
	}
	for variable, err := range map[string]error{
		"": events.CheckToken("value", name), "_PREFIX": events.CheckToken("value", cmp.Or(cfg.Prefix, events.DefaultPrefix)), "_INSTANCE": CheckInstance("value", cfg.Instance),
	} {
		if err != nil {
			return "", cfg, wrong(prefix+variable, err)
		}
	}
	c := connection{URL: env("_NATS"), CA: env("_TLS_CA"), Cert: env("_TLS_CERT"), Key: env("_TLS_KEY"), Inbox: env("_INBOX"), seedFile: env("_NKEY")}
	var opts []nats.Option
	if file := env("_CONNECTION"); file != "" {
		if c, opts, err = readConnection(file); err != nil {
			return "", cfg, wrong(prefix+"_CONNECTION", err)
		}
	} else if err = c.check(false); err == nil {
		opts, err = c.options()
	}
	if err == nil {
		cfg.Conn, err = Dial(c.URL, opts...)
	}
	return name, cfg, err
}

// Dial connects a plugin to servers, URLs separated by commas. The connection is made again for ever after it breaks.
// Where no server answers, Dial says so on standard error, and returns a connection that waits for one, as [Start] then
// does. Errors: those of NATS with the URLs, such as a refusal of the credentials.
func Dial(urls string, opts ...nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{nats.MaxReconnects(-1)}, opts...)
	conn, err := nats.Connect(urls, opts...)
	if errors.Is(err, nats.ErrNoServers) {
		fmt.Fprintf(os.Stderr, "nats: no server answers at %s: waiting for one; start it, or lash-node serve, which has one\n", withoutPasswords(urls))
		conn, err = nats.Connect(urls, append(opts, nats.RetryOnFailedConnect(true))...)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", withoutPasswords(urls), err)
	}
	return conn, nil
}

// withoutPasswords hides passwords and tokens in URLs that are separated by commas.
func withoutPasswords(urls string) string {
	return regexp.MustCompile(`//[^/@,]*@`).ReplaceAllString(urls, "//")
}

func (c *connection) options() (opts []nats.Option, err error) {
	if c.Inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.Inbox))
	}
	if c.CA != "" {
		opts = append(opts, nats.RootCAs(c.CA))
	}
	if c.Cert != "" {
		opts = append(opts, nats.ClientCert(c.Cert, c.Key))
	}
	if c.seedFile != "" {
		key, err := nats.NkeyOptionFromSeed(c.seedFile)
		return append(opts, key), err
	}
	if c.Seed == "" {
		return opts, nil
	}
	key, err := nkeys.FromSeed([]byte(c.Seed))
	if err != nil {
		return nil, fmt.Errorf("seed: %w", err)
	}
	public, err := key.PublicKey()
	return append(opts, nats.Nkey(public, key.Sign)), err
}
