package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
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
// subjects of answers. An embedded server writes such a file for each plugin. The connection is made again for ever after
// it breaks. Errors: those of the file, which name it, and those of NATS.
func Connect(file string, more ...nats.Option) (*nats.Conn, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	var c connection
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	opts, err := c.options()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return nats.Connect(c.URL, append(opts, more...)...)
}

func (c *connection) options() (opts []nats.Option, err error) {
	opts = []nats.Option{nats.MaxReconnects(-1)}
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
