package api

import "context"

// Asked is the metadata of a request: its actor and its key. A server attaches it with [WithAsked].
type Asked struct {
	Actor string // the authenticated caller, which commits name. Empty: the host
	// Key identifies the request, and is the id of what it creates where it contains no id. The request's commit
	// stores the key, so a repeat at any time and place finds the commit and gets the first answer. Another request
	// with the key is [ErrDifferent]. Empty: repeats are not detected.
	Key string
}

type askedKey struct{}

// takenAsked is the metadata that remains after [TakeAsked].
type takenAsked struct {
	actor string // the actor of the request
}

// WithAsked attaches the metadata of a request for one method of the host. Calls that this method makes with the
// context of [TakeAsked] keep the actor and lose the key: they are separate requests.
func WithAsked(ctx context.Context, a Asked) context.Context {
	return context.WithValue(ctx, askedKey{}, a)
}

// TakeAsked returns the metadata that [WithAsked] attached. The returned context has the actor, and no key.
func TakeAsked(ctx context.Context) (context.Context, Asked) {
	switch a := ctx.Value(askedKey{}).(type) {
	case Asked:
		return context.WithValue(ctx, askedKey{}, takenAsked{actor: a.Actor}), a
	case takenAsked:
		return ctx, Asked{Actor: a.actor}
	}
	return context.WithValue(ctx, askedKey{}, takenAsked{}), Asked{}
}
