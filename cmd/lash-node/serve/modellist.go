package serve

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/workers/llm"
)

const (
	listWait = 3 * time.Second  // for a provider's list of models while a request waits
	listAge  = 10 * time.Second // minimum age of a list before it is read again
)

// modelLists checks the models of sessions against the lists of their providers.
type modelLists struct {
	log       *zap.Logger
	locks     lock.Locks
	providers map[string]llm.Provider
	provider  string // of sessions that name none

	mu    sync.Mutex
	lists map[string]modelList // by provider
}

// modelList has the models of a provider. Without names, any model is accepted.
type modelList struct {
	names []string
	at    time.Time // of the last read, also where that failed
}

// check warns of a model that its provider's list does not have: lists of gateways lack models that they have. It accepts
// any name where the provider returns no list.
func (m *modelLists) check(ctx context.Context, c events.Config) error {
	id := cmp.Or(c.Provider, m.provider)
	lister, ok := m.providers[id].(llm.Lister)
	if !ok {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.lists[id]
	if !slices.Contains(list.names, c.Model) && time.Since(list.at) > listAge {
		ctx, cancel := context.WithTimeout(ctx, listWait)
		defer cancel()
		if names, err := lister.Models(ctx); err == nil { // otherwise the first turn has the provider's error
			slices.Sort(names)
			list.names = names
		}
		list.at = time.Now()
		m.lists[id] = list
	}
	if len(list.names) == 0 || slices.Contains(list.names, c.Model) {
		return nil
	}
	m.log.Warn("the provider's list has no such model", zap.String("provider", id), zap.String("model", c.Model), zap.String("has", llm.ShortList(m.locks.AllowedModels(list.names))))
	return nil
}
