package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/check"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// choosy is a version of a protocol that refuses extensions of a type.
type choosy struct {
	*mindful
	refuses string
}

func (c choosy) Register(reg *plugin.Registrar) error {
	reg.Protocol(c)
	reg.Driver(c)
	return nil
}

func (c choosy) ApplyExtension(ctx context.Context, e events.Extension) error {
	if e.Type == c.refuses {
		return errors.New("not in this version")
	}
	return c.mindful.ApplyExtension(ctx, e)
}

// ofVersion is the protocol of a node, and gives the newest that was built.
func ofVersion(refuses string) (f plugin.Factory, has func() string) {
	n := &standin{}
	return plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.last = &mindful{}
		return choosy{n.last, refuses}, nil
	}), func() string { return n.lastProtocol().has() }
}

// TestExtensionMended has a newer version of a protocol refuse an extension that the session keeps: turns
// end. Whoever may configure the session replaces its extensions, also at that node, and turns run.
func TestExtensionMended(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]events.Extension{
		"removed": nil, "replaced": {{Type: "y", Body: []byte("1")}, {Type: "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, reply(text("done")))
			older, _ := ofVersion("")
			n, kill := b.patient(time.Minute, older)
			b.Host = n.Host()
			id := b.open(api.CreateRequest{})
			for _, kind := range []string{"w", "x"} {
				must(t, "extension", b.ApplyExtension(b.ctx, id, events.Extension{Type: kind}), nil)
			}
			kill()
			_, err := b.otherHost().Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
			must(t, "submit", err, nil)
			newer, has := ofVersion("x")
			n, _ = b.patient(time.Millisecond, newer)
			b.Host = n.Host()
			equal(t, "issue", b.ended(id, "t1").Issue.Code, "plugin_build")

			at := b.last(id)
			err = b.ReplaceExtensions(b.ctx, id, []events.Extension{{Type: "y"}, {Type: "x"}})
			must(t, "replace by the refused one", err, api.ErrProtocol)
			equal(t, "field", fieldOf(err), "extensions[1]")
			equal(t, "last sequence", b.last(id), at)
			must(t, "replace", b.ReplaceExtensions(b.ctx, id, list), nil)
			b.submit(id, "t2", text("go"))
			equal(t, "end", b.ended(id, "t2").End, events.EndFinished)
			equal(t, "what the protocol has", has(), map[string]string{"removed": "", "replaced": "y1 z"}[name])
			equal(t, "kept", len(b.state(id).Extensions), len(list))
			verified(t, b.bus, id)
		})
	}
}

// TestExtensionsFollowed replaces extensions at one node: the live protocol of the other is restored, and handed them.
func TestExtensionsFollowed(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	first, hasFirst := ofVersion("")
	second, hasSecond := ofVersion("")
	one, two := b.newNodeOn(b.bus, first).Host(), b.newNodeOn(b.bus, second).Host()
	b.Host = one
	id := b.open(api.CreateRequest{})
	must(t, "extension", one.ApplyExtension(b.ctx, id, events.Extension{Type: "x"}), nil)
	for _, list := range [][]events.Extension{{{Type: "y"}}, {{Type: "z"}}, nil, {{Type: "x"}, {Type: "y"}}} {
		want := ""
		for i, e := range list {
			want += " "[:min(i, 1)] + e.Type
		}
		must(t, "replace", one.ReplaceExtensions(b.ctx, id, list), nil)
		for _, h := range []*session.Host{one, two} {
			_, err := h.Actions(b.ctx, id) // has the plugins follow the history
			must(t, "follow", err, nil)
		}
		equal(t, "the first's", hasFirst(), want)
		equal(t, "the second's", hasSecond(), want)
	}
	fork, err := one.CreateFrom(b.ctx, id, api.CreateRequest{Start: api.StartExisting, From: id, Plugins: api.PluginsFork})
	must(t, "fork", err, nil)
	equal(t, "the fork's", len(b.state(fork.Session).Extensions), 2)
}

// TestExtensionsRefused has every reason for which extensions are not replaced.
func TestExtensionsRefused(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	factory, _ := ofVersion("")
	b.Host = b.newNodeOn(b.bus, factory).Host()
	id := b.open(api.CreateRequest{})
	many := func(n, size int) (list []events.Extension) {
		for range n {
			list = append(list, events.Extension{Type: "x", Body: []byte(fmt.Sprintf("%0*d", size, 0)[:size-1] + "1")})
		}
		return list
	}
	at := b.last(id)
	for name, tc := range map[string]struct {
		list  []events.Extension
		field string
		limit string
	}{
		"type": {[]events.Extension{{Type: "x"}, {}}, "extensions[1].type", ""}, "body": {[]events.Extension{{Type: "x", Body: []byte("{")}}, "extensions[0].body", ""},
		"large": {[]events.Extension{{Type: "x", Body: []byte(`"` + string(make([]byte, check.MaxExtensionBytes)) + `"`)}}, "extensions[0].body", ""},
		"many":  {many(check.MaxExtensions+1, 1), "", "extensions"},
	} {
		err := b.ReplaceExtensions(b.ctx, id, tc.list)
		equal(t, name, fieldOf(err), tc.field)
		limit := (*api.LimitError)(nil)
		equal(t, name+": limit", errors.As(err, &limit) && limit.What == tc.limit, tc.limit != "")
	}
	equal(t, "last sequence", b.last(id), at)
	must(t, "as many as there can be", b.ReplaceExtensions(b.ctx, id, many(check.MaxExtensions, 1)), nil)
	must(t, "close", b.CloseSession(b.ctx, id, ""), nil)
	must(t, "replace in a closed one", b.ReplaceExtensions(b.ctx, id, nil), api.ErrClosed)
}
