package memory

import (
	"context"
	"sync"
	"time"
)

// Account has what a piece of work took of a pool: a request, or the effects of a turn that start together. It is safe for concurrent use.
type Account struct {
	*work
	taken  int64
	ahead  int64 // of taken: for what is taken next
	closed bool
}

// work is what an account and its parts belong to.
type work struct {
	pool     *Pool
	caller   string
	patience time.Duration // how long its first bytes wait; 0: until the context ends

	mu   sync.Mutex // of the accounts, too
	held int64      // by all of them
}

// small is the size, in bytes, of what counts for nothing: the numbers of requests and turns bound it.
const small = 64 << 10

// Account begins an account of a caller, which ends with [Account.Close].
func (p *Pool) Account(caller string, patience time.Duration) *Account {
	return &Account{work: &work{pool: p, caller: caller, patience: patience}}
}

type accountKey struct{}

// In is the context of the account's work.
func (a *Account) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, accountKey{}, a)
}

// Part begins an account for a part of the context's work that gives back what it took before the rest ends.
func Part(ctx context.Context) (context.Context, *Account) {
	a := &Account{work: &work{}}
	if of, ok := ctx.Value(accountKey{}).(*Account); ok {
		a.work = of.work
	}
	return a.In(ctx), a
}

type nowKey struct{}

// Now is a context of work for which others wait: it gets memory at once, or not at all.
func Now(ctx context.Context) context.Context { return context.WithValue(ctx, nowKey{}, true) }

// further is how long bytes wait of work that has some: two that have some and wait for more would wait for each other.
const further = time.Second

// Take takes bytes for the context's account, before they are read. The first ones of a piece of work wait as long as it may, and further ones
// shortly. Without an account there is no limit. Errors: those of [Pool.Take].
func Take(ctx context.Context, bytes int64) error {
	a, ok := ctx.Value(accountKey{}).(*Account)
	if !ok {
		return nil
	}
	a.mu.Lock()
	reserved := max(min(bytes, a.ahead), 0)
	a.ahead -= reserved
	a.mu.Unlock()
	return a.take(ctx, bytes-reserved, 0)
}

// Reserve takes bytes for what is taken next for the account.
func (a *Account) Reserve(ctx context.Context, bytes int64) error { return a.take(ctx, bytes, bytes) }

// Return returns bytes of [Account.Reserve], after which nothing was kept.
func (a *Account) Return(bytes int64) {
	if bytes <= small {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes = min(bytes, a.taken) // none of a closed one
	a.pool.give(a.caller, bytes)
	a.taken, a.held, a.ahead = a.taken-bytes, a.held-bytes, 0
}

func (a *Account) take(ctx context.Context, bytes, ahead int64) error {
	if bytes >= 0 && bytes <= small {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	switch {
	case ctx.Value(nowKey{}) != nil:
		cancel()
	case a.Holds():
		ctx, cancel = context.WithTimeout(ctx, further)
		defer cancel()
	case a.patience > 0:
		ctx, cancel = context.WithTimeout(ctx, a.patience)
		defer cancel()
	}
	give, err := a.pool.Take(ctx, a.caller, bytes)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed { // its work goes on after its end
		give()
		return nil
	}
	a.taken, a.held, a.ahead = a.taken+bytes, a.held+bytes, a.ahead+ahead
	return nil
}

// Holds reports whether the account's work, with all its parts, has bytes.
func (a *Account) Holds() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held > 0
}

// GiveBack returns the bytes of the account, which can take others.
func (a *Account) GiveBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pool.give(a.caller, a.taken)
	a.taken, a.held, a.ahead = 0, a.held-a.taken, 0
}

// Close is GiveBack, and what is taken from now on is given back at once.
func (a *Account) Close() {
	a.setClosed(true)
	a.GiveBack()
}

// Reopen ends [Account.Close].
func (a *Account) Reopen() { a.setClosed(false) }

func (a *Account) setClosed(closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = closed
}
