package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

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
		err = c.check()
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
	if err := checkEnv(env); err != nil {
		return "", cfg, err
	}
	url, opts, err := connectionOf(env)
	if err != nil {
		return "", cfg, err
	}
	conn, err := Dial(url, opts...)
	return env(""), Config{Conn: conn, Prefix: env("_PREFIX"), Instance: env("_INSTANCE")}, err
}

// connectionOf is the connection that the variables name, by a file or each value by itself.
func connectionOf(env func(variable string) string) (url string, opts []nats.Option, err error) {
	if file := env("_CONNECTION"); file != "" {
		c, opts, err := readConnection(file)
		if err != nil {
			return "", nil, wrong("_CONNECTION", err)
		}
		return c.URL, opts, nil
	}
	c := connection{URL: env("_NATS"), CA: env("_TLS_CA"), Cert: env("_TLS_CERT"), Key: env("_TLS_KEY"), Inbox: env("_INBOX")}
	if opts, err = c.options(); err != nil || env("_NKEY") == "" {
		return c.URL, opts, err
	}
	key, err := keyOption(env("_NKEY"))
	return c.URL, append(opts, key), err
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
