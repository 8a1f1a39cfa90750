package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/session/plugin/wire"
)

// prefix begins the names of the variables of the protocol.
const prefix = "LASH_PLUGIN"

// rule refuses the value of a variable that is not empty. The error does not name the variable.
type rule struct {
	variable string // after prefix
	check    func(value string) error
}

// rules are those of all variables. LASH_PLUGIN_CONNECTION has the same for the fields of its file.
func rules() []rule {
	return []rule{
		{"", checkToken},
		{"_PREFIX", checkToken},
		{"_INSTANCE", checkInstanceName},
		{"_NATS", checkServers},
		{"_INBOX", checkInbox},
		{"_CONNECTION", func(file string) error { _, _, err := readConnection(file); return err }},
		{"_NKEY", checkSeedFile},
		{"_TLS_CA", checkAuthority},
		{"_TLS_CERT", localfile.Check},
		{"_TLS_KEY", localfile.Check},
	}
}

// Variables lists the variables that [FromEnv] reads.
func Variables() []string {
	var list []string
	for _, r := range rules() {
		list = append(list, prefix+r.variable)
	}
	return list
}

// checkEnv checks the variables. With a file of the connection those that it replaces do not count. Errors: an [*events.FieldError] of the
// first variable whose value is wrong.
func checkEnv(env func(variable string) string) error {
	replaced := []string{"_NATS", "_INBOX", "_NKEY", "_TLS_CA", "_TLS_CERT", "_TLS_KEY"}
	for _, r := range rules() {
		value := env(r.variable)
		if value == "" || env("_CONNECTION") != "" && slices.Contains(replaced, r.variable) {
			continue
		}
		if err := r.check(value); err != nil {
			return wrong(r.variable, err)
		}
	}
	switch {
	case env("") == "":
		return wrong("", errors.New("is required: the name of the plugin"))
	case env("_CONNECTION") != "":
		return nil
	case env("_NATS") == "":
		return wrong("_NATS", errors.New("is required: the URLs of the servers, or "+prefix+"_CONNECTION with a file"))
	}
	return checkPair(env("_TLS_CERT"), env("_TLS_KEY"))
}

// wrong is the error of a variable, in one line.
func wrong(variable string, err error) error {
	reason := err.Error()
	if field, ok := errors.AsType[*events.FieldError](err); ok && field.Field == "value" {
		reason = field.Reason
	}
	return &events.FieldError{Field: prefix + variable, Reason: strings.ReplaceAll(reason, "\n", " "), Err: fmt.Errorf("%w: %w", events.ErrInvalid, err)}
}

func checkToken(value string) error { return events.CheckToken("value", value) }

func checkInstanceName(value string) error { return CheckInstance("value", value) }

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

// checkPair checks a certificate with its key.
func checkPair(certificate, key string) error {
	switch {
	case certificate == "" && key == "":
		return nil
	case certificate == "":
		return wrong("_TLS_CERT", fmt.Errorf("is required with %s_TLS_KEY", prefix))
	case key == "":
		return wrong("_TLS_KEY", fmt.Errorf("is required with %s_TLS_CERT", prefix))
	}
	if err := readPair(certificate, key); err != nil {
		return wrong("_TLS_CERT", err)
	}
	return nil
}

func readPair(certificate, key string) error {
	cert, err := localfile.Read(certificate, localfile.MaxBytes)
	if err != nil {
		return err
	}
	secret, err := localfile.Read(key, localfile.MaxBytes)
	if err == nil {
		_, err = tls.X509KeyPair(cert, secret)
	}
	if err != nil {
		return fmt.Errorf("%s with %s: %w", certificate, key, err)
	}
	return nil
}

// check checks the fields of a connection's file. Errors: an [*events.FieldError].
func (c *connection) check() error {
	refused := func(field string, err error) error {
		if err == nil {
			return nil
		}
		return &events.FieldError{Field: field, Reason: err.Error(), Err: fmt.Errorf("%w: %w", events.ErrInvalid, err)}
	}
	if c.URL == "" {
		return refused("url", errors.New("is required"))
	}
	if err := checkServers(c.URL); err != nil {
		return refused("url", err)
	}
	if c.Inbox != "" {
		if err := checkInbox(c.Inbox); err != nil {
			return refused("inbox", err)
		}
	}
	if c.CA != "" {
		if err := checkAuthority(c.CA); err != nil {
			return refused("tls_ca", err)
		}
	}
	if c.Cert+c.Key == "" {
		return nil
	}
	if c.Cert == "" || c.Key == "" {
		return refused("tls_cert", errors.New("goes with tls_key"))
	}
	return refused("tls_cert", readPair(c.Cert, c.Key))
}

// keyOption authenticates with the seed in a file.
func keyOption(file string) (nats.Option, error) {
	opt, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return nil, wrong("_NKEY", err)
	}
	return opt, nil
}
