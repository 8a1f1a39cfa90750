package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// Identifier is a [httpapi.Identifier] of signed tokens. Stop ends its background reads.
type Identifier struct {
	cfg  Config
	keys *keys

	stop    context.CancelFunc
	running sync.WaitGroup
}

// New reads the keys, and then again at each interval until Stop. It reports all errors of the configuration
// together. An issuer that does not answer is no error: until the first successful read, tokens are
// [httpapi.ErrNotReady].
func New(ctx context.Context, cfg Config) (*Identifier, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("new oidc identifier: %w", err)
	}
	i := &Identifier{cfg: cfg, keys: &keys{reading: make(chan struct{}, 1), read: cfg.read, signatures: cfg.signatures(), now: cfg.Now, log: cfg.Logger.Named("oidc")}}
	err := i.keys.refresh(ctx)
	if err == nil && !i.keys.ready() {
		err = errors.New("the issuer's key set is empty")
	}
	if err != nil && cfg.KeysFile != "" {
		return nil, fmt.Errorf("new oidc identifier: %w", err)
	}
	if err != nil {
		i.keys.failed(err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	i.stop = stop
	i.running.Go(func() { i.refresh(background) })
	return i, nil
}

// Ready is false until the issuer's keys were read once: until then its tokens are [httpapi.ErrNotReady].
func (i *Identifier) Ready() bool { return i.keys.ready() }

// Stop ends the background reads, and waits for them.
func (i *Identifier) Stop() {
	i.stop()
	i.running.Wait()
}

func (i *Identifier) refresh(ctx context.Context) {
	for {
		pause := time.Duration(i.cfg.RefreshSeconds) * time.Second
		if !i.keys.ready() {
			pause = min(pause, readPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := i.keys.refresh(ctx); err != nil && ctx.Err() == nil {
			i.keys.failed(err)
		}
	}
}

// Identify implements [httpapi.Identifier].
func (i *Identifier) Identify(r *http.Request) (httpapi.Caller, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return httpapi.Caller{}, httpapi.ErrNotMine
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	text = strings.TrimSpace(text)
	if !strings.EqualFold(scheme, "bearer") || strings.Count(text, ".") != 2 {
		return httpapi.Caller{}, httpapi.ErrNotMine
	}
	if len(text) > maxTokenText {
		return httpapi.Caller{}, fmt.Errorf("token: above the limit of %d bytes", maxTokenText)
	}
	payload, err := i.keys.verified(r.Context(), text)
	if err != nil && !i.keys.ready() {
		return httpapi.Caller{}, fmt.Errorf("the issuer's keys were never read: %w", httpapi.ErrNotReady)
	}
	var c claims
	if err == nil {
		c, err = parseClaims(payload)
	}
	if err == nil {
		err = c.check(&i.cfg)
	}
	var caller httpapi.Caller
	if err == nil {
		caller, err = i.caller(c)
	}
	if err != nil {
		return httpapi.Caller{}, fmt.Errorf("token: %w", err)
	}
	return caller, nil
}

// caller is the caller that verified claims name.
func (i *Identifier) caller(named claims) (c httpapi.Caller, err error) {
	if c.Name, err = named.text(i.cfg.NameClaim); err != nil {
		return c, err
	}
	if err := events.CheckToken("claim "+i.cfg.NameClaim, c.Name); err != nil {
		return c, err
	}
	c.Name = *i.cfg.NamePrefix + c.Name
	if err := events.CheckCaller("name_prefix and claim "+i.cfg.NameClaim, c.Name); err != nil {
		return c, err
	}
	if slices.Contains(i.cfg.ReservedNames, c.Name) || i.cfg.Reserved != nil && i.cfg.Reserved(c.Name) {
		return c, errors.New("claim " + i.cfg.NameClaim + " is the name of an operator, or of another source's caller")
	}
	if i.cfg.TenantClaim != "" {
		if c.Tenant, err = named.text(i.cfg.TenantClaim); err != nil {
			return c, err
		}
	}
	all := false
	c.Scope, all, err = i.rights(named[i.cfg.ScopeClaim])
	c.Own = !all
	return c, err
}

// rights are the union of the rights in the scope claim.
func (i *Identifier) rights(raw json.RawMessage) (scope api.Scope, all bool, err error) {
	list, ok := texts(raw)
	if !ok {
		return "", false, errors.New("claim " + i.cfg.ScopeClaim + " is neither a text nor a list of texts")
	}
	if isText(raw) {
		list = strings.Fields(list[0])
	}
	var rights []string
	for _, value := range list {
		granted, ours := strings.CutPrefix(value, i.cfg.ScopePrefix)
		switch s := api.Scope(granted); {
		case !ours:
		case granted == "all":
			all = true
		case s.Check() != nil:
			return "", false, errors.New("claim " + i.cfg.ScopeClaim + " grants what there is not")
		default:
			for _, right := range s.Rights() {
				if !slices.Contains(rights, string(right)) {
					rights = append(rights, string(right))
				}
			}
		}
	}
	if len(rights) == 0 {
		return "", false, errors.New("claim " + i.cfg.ScopeClaim + " grants no right")
	}
	return api.Scope(strings.Join(rights, ",")), all, nil
}
