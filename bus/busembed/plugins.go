package busembed

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lash-go/lash/events"
)

// pluginsName is the directory in the store with the accesses of plugins.
const pluginsName = "plugins"

// PluginFile is the path of the file with the [Access] of one of [Config.Plugins]: the address of the server, and the
// plugin's key. A program with the file can act as that plugin, and do nothing else.
func PluginFile(store, plugin string) string {
	return filepath.Join(filepath.Clean(store), pluginsName, plugin+".json")
}

var token = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// checkPlugins refuses plugins where the server has no keys, and names that are no tokens.
func (c Config) checkPlugins() error {
	if len(c.Plugins) > 0 && !c.Keyed {
		return errors.New("a server with plugins needs keys")
	}
	for _, name := range c.Plugins {
		if !token.MatchString(name) {
			return fmt.Errorf("plugin %q: want A-Z a-z 0-9 _ -", name)
		}
	}
	return nil
}

// addPlugins gives each plugin an account and a key of its own. The accounts are those of deploy/nats/roles/plugin.conf.
func (s *Server) addPlugins(cfg Config, opts *server.Options) error {
	if len(cfg.Plugins) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(filepath.Clean(cfg.StoreDir), pluginsName), 0o700); err != nil {
		return err
	}
	nodes := server.NewAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	opts.Accounts = []*server.Account{nodes}
	s.plugins = make(map[string]*Access, len(cfg.Plugins))
	for _, name := range cfg.Plugins {
		a, err := openAccess(PluginFile(cfg.StoreDir, name))
		if err != nil {
			return err
		}
		account, user, err := a.pluginUser(cmp.Or(cfg.Prefix, events.DefaultPrefix), name, nodes)
		if err != nil {
			return fmt.Errorf("plugin %s: %w", name, err)
		}
		s.plugins[name] = &a
		opts.Accounts, opts.Nkeys = append(opts.Accounts, account), append(opts.Nkeys, user)
	}
	return nil
}

// pluginUser is the account of a plugin, which shares with the nodes' account the subjects of its name only, and its user.
func (a Access) pluginUser(prefix, name string, nodes *server.Account) (*server.Account, *server.NkeyUser, error) {
	_, public, err := a.key()
	if err != nil {
		return nil, nil, err
	}
	account := server.NewAccount("plugin-" + name)
	requests, calls, signs := prefix+".plugins."+name, prefix+".plugin."+name+".*.*", prefix+".plugin-live."+name+".*"
	own, theirs := []*server.Account{account}, []*server.Account{nodes}
	err = errors.Join(
		nodes.AddServiceExport(requests+".*", own), account.AddServiceImport(nodes, requests+".*", ""),
		account.AddServiceExportWithResponse(calls, server.Streamed, theirs), nodes.AddServiceImport(account, calls, ""),
		account.AddStreamExport(signs, theirs), nodes.AddStreamImport(account, signs, ""),
	)
	return account, &server.NkeyUser{Nkey: public, Account: account, Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{requests + ".register", requests + ".fire", signs, "_R_.>"}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", calls}},
	}}, err
}

// servePlugins completes the start of a server with plugins. With several accounts the server gives none a store by itself.
func (s *Server) servePlugins(cfg Config) error {
	if len(s.plugins) == 0 {
		return nil
	}
	if err := s.ns.GlobalAccount().EnableJetStream(nil, nil); err != nil {
		return err
	}
	for name, a := range s.plugins {
		if cfg.Listen {
			a.URL = s.URL()
		}
		if err := a.write(PluginFile(cfg.StoreDir, name)); err != nil {
			return err
		}
	}
	return nil
}
