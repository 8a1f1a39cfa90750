package serve

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/session/keyring"
	"github.com/lash-go/lash/workers"
)

// keyFlags are the flags of signed heads.
type keyFlags struct {
	Keys         string `help:"Directory with this node's key and certificate, for the signed heads of histories; lash-node keys makes one. New files there are used at once. Defaults to keys in --store, where the node makes it. With --nats and without it no heads are signed." placeholder:"DIR" type:"path" setting:""`
	Unsigned     bool   `help:"Sign no heads of histories." setting:""`
	Heads        string `help:"Append every signed head to this file, as a line of JSON, for auditors: lash-replay verify --head FILE finds histories that were rolled back. Let another user own it, append-only, or give a named pipe, whose reader must run before the node. Never waits: a head that cannot be written is lost and counted; the next one covers the same commits." placeholder:"FILE" type:"path" writes:"" setting:""`
	HeadsSubject string `name:"heads-subject" help:"Publish every signed head on this NATS subject, where a stream of another account can keep it. The subject takes the session as its last token." placeholder:"SUBJECT" setting:""`
}

// sign sets the signer of heads, and what receives them.
func (c *Command) sign(n *Node, cfg *workers.Config) error {
	signs := !c.Unsigned && (c.Keys != "" || c.NATS == "")
	switch {
	case c.Unsigned && c.Keys != "":
		return errors.New("settings unsigned and keys exclude each other")
	case !signs && (c.Heads != "" || c.HeadsSubject != ""):
		return errors.New("settings heads and heads-subject need signed heads: the setting keys names a key for them")
	case !signs:
		n.signing = "no signed heads; the setting keys names a key for them"
		return nil
	}
	keys, dir, err := c.openKeys()
	if err == nil {
		paths := []string{filepath.Join(dir, keyring.NodeKey), filepath.Join(dir, keyring.Certificate), filepath.Join(dir, keyring.TenantPub)}
		err = n.watched.files.add("setting keys", func(files [][]byte) error { return keys.Set(files[0], files[1], files[2]) }, paths...)
	}
	if err != nil {
		return fmt.Errorf("setting keys %s: %w: lash-node keys makes keys and certificates, the setting unsigned signs nothing", dir, err)
	}
	cert := keys.Signer().Certificate()
	n.signing = fmt.Sprintf("heads are signed with key %s of %s, which is certified until %s", cert.Name, cert.Tenant, cert.Until.Time().UTC().Format(time.DateOnly))
	cfg.Signer = keys.Signer
	return c.sendHeads(n, cfg)
}

func (c *Command) openKeys() (keys *keyring.Keys, dir string, err error) {
	dir = cmp.Or(c.Keys, keyring.Dir(c.Store))
	if err := program.CheckFiles(dir, keyring.NodeKey, keyring.Certificate, keyring.TenantPub, keyring.TenantKey); err != nil {
		return nil, dir, err
	}
	if c.Keys != "" {
		keys, err = keyring.Load(c.Keys, time.Now())
		return keys, c.Keys, err
	}
	keys, err = keyring.Open(dir, time.Now())
	return keys, dir, err
}

// sendHeads opens what receives heads.
func (c *Command) sendHeads(n *Node, cfg *workers.Config) error {
	if c.Heads == "" && c.HeadsSubject == "" {
		return nil
	}
	var to []func(*proof.Head, []byte) error
	w := &headWriter{log: cfg.Logger.Named("heads"), heads: make(chan *proof.Head, headsWaiting)}
	if c.Heads != "" {
		file, err := localfile.Append(c.Heads) // it may be owned by another user
		if err != nil {
			return fmt.Errorf("setting heads: %w", err)
		}
		n.closers = append(n.closers, func() { _ = file.Close() })
		to = append(to, func(_ *proof.Head, line []byte) error {
			_, err := file.Write(line)
			return err
		})
	}
	if c.HeadsSubject != "" {
		conn := n.bus.Conn()
		to = append(to, func(h *proof.Head, line []byte) error {
			return conn.Publish(c.HeadsSubject+"."+string(h.Session), line)
		})
	}
	w.start(to)
	n.closers = append(n.closers, w.stop)
	cfg.Signed = w.send
	return nil
}
