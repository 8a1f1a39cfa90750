package api

import "context"

// RequestMeta is the metadata of a request: its actor and its key. A server attaches it with [WithRequestMeta].
type RequestMeta struct {
	Actor string // the authenticated caller, which commits name. Empty: the host
	// Key identifies the request, and is the id of what it creates where it contains no id. The request's commit
	// stores the key, so a repeat at any time and place finds the commit and gets the first answer. Another request
	// with the key is [ErrDifferent]. Empty: repeats are not detected.
	Key string
}

type requestMetaKey struct{}

// takenRequestMeta is the metadata that remains after [TakeRequestMeta].
type takenRequestMeta struct {
	actor string // the actor of the request
}

// WithRequestMeta attaches the metadata of a request for one method of the host. Calls that this method makes with the
// context of [TakeRequestMeta] keep the actor and lose the key: they are separate requests.
func WithRequestMeta(ctx context.Context, a RequestMeta) context.Context {
	return context.WithValue(ctx, requestMetaKey{}, a)
}

// TakeRequestMeta returns the metadata that [WithRequestMeta] attached. The returned context has the actor, and no key.
func TakeRequestMeta(ctx context.Context) (context.Context, RequestMeta) {
	switch a := ctx.Value(requestMetaKey{}).(type) {
	case RequestMeta:
		return context.WithValue(ctx, requestMetaKey{}, takenRequestMeta{actor: a.Actor}), a
	case takenRequestMeta:
		return ctx, RequestMeta{Actor: a.actor}
	}
	return context.WithValue(ctx, requestMetaKey{}, takenRequestMeta{}), RequestMeta{}
}
