package serve

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/workers"
)

// natsScopes reads the rights of users of other accounts; nil without a file.
func (c *Command) natsScopes() (map[string]api.Reach, error) {
	if c.Scopes == "" {
		return nil, nil //nolint:nilnil // the node's default
	}
	file, err := program.ReadFile(c.Scopes, program.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("setting nats-scopes: %w", err)
	}
	scopes := make(map[string]api.Reach)
	lines := bufio.NewScanner(bytes.NewReader(file))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		own := len(fields) == 3 && fields[2] == "own"
		if len(fields) != 2 && !own {
			return nil, fmt.Errorf("setting nats-scopes %s: line %d: want a user, a scope, and own or nothing", c.Scopes, n)
		}
		scope := api.Scope(fields[1])
		if err := scope.Check(); err != nil {
			return nil, fmt.Errorf("setting nats-scopes %s: line %d: %w", c.Scopes, n, err)
		}
		if err := checkUser(fields[0]); err != nil {
			return nil, fmt.Errorf("setting nats-scopes %s: line %d: %w", c.Scopes, n, err)
		}
		if _, twice := scopes[fields[0]]; twice {
			return nil, fmt.Errorf("setting nats-scopes %s: line %d: user %s has a line already", c.Scopes, n, fields[0])
		}
		scopes[fields[0]] = api.Reach{Scope: scope, Own: own}
	}
	return scopes, lines.Err()
}

// checkUser refuses a name that cannot be a host user of a NATS server.
func checkUser(user string) error {
	name, tenant, _ := strings.Cut(user, "@")
	if err := events.CheckCaller("user", name); events.CheckToken("name", name) == nil && err != nil {
		return err
	}
	if events.CheckToken("name", name) != nil || tenant == "" {
		return &events.FieldError{Field: "user", Reason: fmt.Sprintf("is %q, want NAME@TENANT, NAME of 1 to %d characters A-Z a-z 0-9 _ -", user, events.MaxTokenBytes)}
	}
	return nil
}

// locks reads the settings that sessions cannot change; none without a file.
func (c *Command) locks() (locks lock.Locks, err error) {
	if c.Locks == "" {
		return locks, nil
	}
	file, err := program.ReadFile(c.Locks, program.MaxFileBytes)
	if err != nil {
		return locks, fmt.Errorf("setting locks: %w", err)
	}
	if locks, err = lock.Parse(bytes.NewReader(file)); err == nil {
		err = c.knownPlugins(locks.Plugins)
	}
	return locks, c.ofLocks(err)
}

// ofLocks names the file of the locks in an error.
func (c *Command) ofLocks(err error) error {
	if err != nil {
		return fmt.Errorf("setting locks %s: %w", c.Locks, err)
	}
	return nil
}

// knownPlugins refuses names of plugins that this program does not know: a lock on their options would have no effect.
// It accepts plugins that only other nodes of the fleet have, because this node also serves requests for their
// sessions.
func (c *Command) knownPlugins(names []string) error {
	var known []string
	for _, p := range c.adds.available() {
		known = append(known, p.name)
	}
	for _, f := range workers.Builtins() {
		known = append(known, f.ID())
	}
	for _, p := range c.external {
		known = append(known, p.Name)
	}
	var errs []error
	for _, name := range names {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("plugins: %q is no plugin: want some of %s", name, strings.Join(known, ", ")))
		}
	}
	return errors.Join(errs...)
}
