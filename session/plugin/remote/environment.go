package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/session/plugin/wire"
)

// prefix begins the names of the variables of the protocol.
const prefix = "LASH_PLUGIN"

// setting is a value of a connection, which a file has under its key, and the environment as its variable.
type setting struct {
	key, variable string
	value         string
	check         func(value string) error // of one that is not empty; its error does not name the setting
	required      string                   // why the value may not be empty; empty: it may
}

// settings are those of a connection, that of the servers first.
func (c *connection) settings() []setting {
	var cert, key string
	if c.Key != "" {
		cert = "is required with the key"
	}
	if c.Cert != "" {
		key = "is required with the certificate"
	}
	return []setting{
		{"url", "_NATS", c.URL, checkServers, "is required: the URLs of the servers, or " + prefix + "_CONNECTION with a file"},
		{"inbox", "_INBOX", c.Inbox, checkInbox, ""},
		{"", "_NKEY", c.seedFile, checkSeedFile, ""},
		{"tls_ca", "_TLS_CA", c.CA, checkAuthority, ""},
		{"tls_cert", "_TLS_CERT", c.Cert, c.checkPair, cert},
		{"tls_key", "_TLS_KEY", c.Key, localfile.Check, key},
	}
}

// check checks the settings, which come from a file or from the environment. Errors: an [*events.FieldError] of the first one whose value is
// wrong.
func (c *connection) check(inFile bool) (missing error) {
	for _, s := range c.settings() {
		field := prefix + s.variable
		if inFile {
			field = s.key
		}
		if s.value == "" {
			if s.required != "" && missing == nil {
				missing = wrong(field, errors.New(s.required))
			}
			continue
		}
		if err := s.check(s.value); err != nil {
			return wrong(field, err)
		}
	}
	return missing
}

// Variables lists the variables that [FromEnv] reads.
func Variables() []string {
	list := []string{prefix, prefix + "_PREFIX", prefix + "_INSTANCE", prefix + "_CONNECTION"}
	for _, s := range new(connection).settings() {
		list = append(list, prefix+s.variable)
	}
	return list
}

// wrong is the error of a value, in one line.
func wrong(field string, err error) error {
	reason := err.Error()
	if invalid, ok := errors.AsType[*events.FieldError](err); ok && invalid.Field == "value" {
		reason = invalid.Reason
	}
	return &events.FieldError{Field: field, Reason: strings.ReplaceAll(reason, "\n", " "), Err: fmt.Errorf("%w: %w", events.ErrInvalid, err)}
}

// CheckInstance checks what [Config.Instance] may be; the error names the field. Errors: an [*events.FieldError].
func CheckInstance(field, name string) error {
	switch {
	case name == "":
		return nil
	case len(name) > wire.MaxInstanceName:
		return &events.FieldError{Field: field, Reason: fmt.Sprintf("has %d characters, limit is %d", len(name), wire.MaxInstanceName), Err: events.ErrInvalidID}
	}
	return events.CheckToken(field, name)
}

// checkServers checks URLs that are separated by commas.
func checkServers(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" {
			return errors.New("want nats://HOST:PORT or tls://HOST:PORT, separated by commas")
		}
	}
	return nil
}

func checkInbox(inbox string) error {
	for part := range strings.SplitSeq(inbox, ".") {
		if part == "" || strings.ContainsAny(part, "*> \t\r\n") {
			return errors.New("want a prefix of subjects, as _INBOX.USER: without empty parts, blanks, * and >")
		}
	}
	return nil
}

func checkSeedFile(file string) error {
	data, err := localfile.Read(file, localfile.MaxBytes)
	if err != nil {
		return err
	}
	if _, err := nkeys.ParseDecoratedNKey(data); err != nil {
		return fmt.Errorf("%s has no seed of an nkey, which begins with S; %s_CONNECTION takes a JSON file", file, prefix)
	}
	return nil
}

func checkAuthority(file string) error {
	data, err := localfile.Read(file, localfile.MaxBytes)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(data) {
		err = fmt.Errorf("%s has no certificate in PEM", file)
	}
	return err
}

// checkPair checks a certificate with its key, if there is one.
func (c *connection) checkPair(certificate string) error {
	cert, err := localfile.Read(certificate, localfile.MaxBytes)
	if err != nil || c.Key == "" {
		return err
	}
	secret, err := localfile.Read(c.Key, localfile.MaxBytes)
	if err == nil {
		_, err = tls.X509KeyPair(cert, secret)
	}
	if err != nil {
		return fmt.Errorf("%s with %s: %w", certificate, c.Key, err)
	}
	return nil
}
