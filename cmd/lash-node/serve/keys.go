package serve

import (
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/session/keyring"
)

// signer is the signer of heads; nil: none are signed.
func (c *Command) signer(n *Node) (func() *proof.Signer, error) {
	switch {
	case c.Unsigned && c.Keys != "":
		return nil, errors.New("--unsigned and --keys exclude each other")
	case c.Unsigned || c.Keys == "" && c.NATS != "":
		n.signing = "no signed heads; --keys DIR names a key for them"
		return nil, nil
	case c.Keys != "":
		keys, err := keyring.Load(c.Keys, time.Now())
		return c.signs(n, keys, err, c.Keys)
	}
	dir := keyring.Dir(c.Store)
	keys, err := keyring.Open(dir, time.Now())
	return c.signs(n, keys, err, dir)
}

func (c *Command) signs(n *Node, keys *keyring.Keys, err error, dir string) (func() *proof.Signer, error) {
	if err != nil {
		return nil, fmt.Errorf("--keys %s: %w: lash-node keys makes keys and certificates, --unsigned signs nothing", dir, err)
	}
	cert := keys.Signer().Certificate()
	n.signing = fmt.Sprintf("heads are signed with key %s of %s, which is certified until %s", cert.Name, cert.Tenant, cert.Until.Time().UTC().Format(time.DateOnly))
	return keys.Signer, nil
}
