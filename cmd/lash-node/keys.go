package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/keyring"
)

type keysCmd struct {
	Make    keysMakeCmd    `cmd:"" help:"Make a tenant's key."`
	Certify keysCertifyCmd `cmd:"" help:"Make a node's key, with a certificate of the tenant. It replaces the node's last one."`
	Bodies  keysBodiesCmd  `cmd:"" help:"Keys that encrypt what sessions say: make, add, use, forget, show."`
	Show    keysShowCmd    `cmd:"" help:"Show the public key and the certificate in a directory of keys."`
}

func (*keysCmd) Help() string {
	return `Nodes sign the heads of histories. A tenant's key certifies the nodes' keys, and auditors have the tenant's public
key: lash-replay verify --key. A node with an embedded server makes both in keys of its store. For a fleet:

  lash-node keys make --dir tenant --name example.com/agents
  lash-node keys certify --tenant tenant --dir n1 --name n1
  lash-node serve --nats URL --set keys=n1

Keep the tenant's directory where no node can read it. A node uses new files in its directory at once. Histories that older
keys signed stay valid. For another tenant's key, make one, certify the nodes' keys with it, and give auditors both.`
}

type keysMakeCmd struct {
	Dir  string `required:"" help:"Directory for the key." placeholder:"DIR" type:"path"`
	Name string `help:"Name of the tenant, which begins the first line of every head. Defaults to one of the key." placeholder:"NAME"`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

// Run makes the key and prints the public one.
func (c *keysMakeCmd) Run(s *streams) error {
	public, err := keyring.MakeTenant(c.Dir, c.Name)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: give another --dir", err)
	}
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	if c.JSON {
		return writeJSON(s, map[string]string{"public_key": public, "dir": c.Dir})
	}
	write(s.Out, "%s\n", public)
	return nil
}

type keysCertifyCmd struct {
	Tenant string `help:"Directory with the tenant's key. Defaults to --dir, as in a store." placeholder:"DIR" type:"path"`
	Dir    string `required:"" help:"Directory of the node's keys." placeholder:"DIR" type:"path"`
	Name   string `help:"Name of the node's key. Defaults to one of the key." placeholder:"NAME"`
	Days   int    `help:"Days from now for which the certificate is valid. Default: ${default}." default:"365" placeholder:"N"`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Run makes the key and prints its certificate.
func (c *keysCertifyCmd) Run(s *streams) error {
	if c.Days < 1 || c.Days > 36500 {
		return fmt.Errorf("--days %d: want 1 to 36500", c.Days)
	}
	tenant := c.Tenant
	if tenant == "" {
		tenant = c.Dir
	}
	if _, err := keyring.Certify(c.Dir, tenant, c.Name, time.Now(), time.Duration(c.Days)*24*time.Hour); err != nil {
		return fmt.Errorf("%w: lash-node keys make makes the key of a tenant", err)
	}
	return showKeys(s, c.Dir, c.JSON)
}

type keysShowCmd struct {
	Dir  string `default:".lash/keys" help:"Directory of keys. Defaults to that of the store in .lash." placeholder:"DIR" type:"path"`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

// Run prints what is public.
func (c *keysShowCmd) Run(s *streams) error { return showKeys(s, c.Dir, c.JSON) }

// shownKeys is the public part of a directory of keys.
type shownKeys struct {
	PublicKeys []string `json:"public_keys"` // of tenants
	Tenant     string   `json:"tenant,omitempty"`
	Node       string   `json:"node,omitempty"`
	From       string   `json:"from,omitempty"`
	Until      string   `json:"until,omitempty"`
}

func showKeys(s *streams, dir string, asJSON bool) error {
	if err := program.CheckFiles(dir, keyring.NodeKey, keyring.Certificate, keyring.TenantPub); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	public, err := program.ReadSetting(filepath.Join(dir, keyring.TenantPub))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: --dir DIR names another directory, lash-node keys make makes one", err)
	}
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	shown := shownKeys{PublicKeys: strings.Fields(string(public))}
	keys, err := keyring.Load(dir, time.Now())
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, keyring.ErrExpired) {
		return err
	}
	if keys != nil {
		cert := keys.Signer().Certificate()
		shown.Tenant, shown.Node = cert.Tenant, cert.Name
		shown.From, shown.Until = cert.From.Time().UTC().Format(time.RFC3339), cert.Until.Time().UTC().Format(time.RFC3339)
	}
	if asJSON {
		return writeJSON(s, shown)
	}
	for _, key := range shown.PublicKeys {
		write(s.Out, "public key %s\n", key)
	}
	if shown.Node != "" {
		write(s.Out, "node's key %s, certified by %s from %s to %s\n", shown.Node, shown.Tenant, shown.From, shown.Until)
	}
	return nil
}
