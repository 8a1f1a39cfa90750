package system

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
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

// ofVersion is the protocol of a node, and returns the newest instance.
func ofVersion(refuses string) (f plugin.Factory, has func() string) {
	n := &nodePlugins{}
	return plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.last = &mindful{}
		return choosy{n.last, refuses}, nil
	}), func() string { return n.lastProtocol().has() }
}

// TestExtensionMended has a newer version of a protocol refuse an extension of the session: turns end. A caller
// with the right to configure the session replaces its extensions, also at that node, and turns run.
func TestExtensionMended(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]events.Extension{
		"removed": nil, "replaced": {{Type: "y", Body: []byte("1")}, {Type: "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
			older, _ := ofVersion("")
			n, kill := patient(b, time.Minute, older)
			b.Host = n.Host()
			id := b.Open(api.CreateRequest{})
			for _, kind := range []string{"w", "x"} {
				runtest.WantError(t, "extension", b.ApplyExtension(b.Ctx, id, events.Extension{Type: kind}), nil)
			}
			kill()
			_, err := b.OtherHost().Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
			runtest.WantError(t, "submit", err, nil)
			newer, has := ofVersion("x")
			n, _ = patient(b, time.Millisecond, newer)
			b.Host = n.Host()
			runtest.Equal(t, "issue", b.AwaitTurn(id, "t1").Issue.Code, "plugin_build")

			at := b.LastSeq(id)
			err = b.ReplaceExtensions(b.Ctx, id, []events.Extension{{Type: "y"}, {Type: "x"}})
			runtest.WantError(t, "replace by the refused one", err, api.ErrProtocol)
			runtest.Equal(t, "field", fieldOf(err), "extensions[1]")
			runtest.Equal(t, "last sequence", b.LastSeq(id), at)
			runtest.WantError(t, "replace", b.ReplaceExtensions(b.Ctx, id, list), nil)
			b.StartTurn(id, "t2", harness.Text("go"))
			runtest.Equal(t, "end", b.AwaitTurn(id, "t2").End, events.EndFinished)
			runtest.Equal(t, "what the protocol has", has(), map[string]string{"removed": "", "replaced": "y1 z"}[name])
			runtest.Equal(t, "kept", len(b.StateOf(id).Extensions), len(list))
			harness.VerifyHistory(t, b.Bus, id)
		})
	}
}

// TestExtensionsFollowed replaces extensions at one node: the live protocol of the other is restored, and handed them. After
// a replacement that is refused the live protocol has those before it.
func TestExtensionsFollowed(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	first, hasFirst := ofVersion("")
	second, hasSecond := ofVersion("")
	one, two := b.NewNode(b.Bus, first).Host(), b.NewNode(b.Bus, second).Host()
	b.Host = one
	id := b.Open(api.CreateRequest{})
	runtest.WantError(t, "extension", one.ApplyExtension(b.Ctx, id, events.Extension{Type: "x"}), nil)
	for _, list := range [][]events.Extension{{{Type: "y"}}, {{Type: "z"}}, nil, {{Type: "x"}, {Type: "y"}}} {
		want := ""
		for i, e := range list {
			want += " "[:min(i, 1)] + e.Type
		}
		runtest.WantError(t, "replace", one.ReplaceExtensions(b.Ctx, id, list), nil)
		for _, h := range []*session.Host{one, two} {
			_, err := h.Actions(b.Ctx, id) // has the plugins follow the history
			runtest.WantError(t, "follow", err, nil)
		}
		runtest.Equal(t, "the first's", hasFirst(), want)
		runtest.Equal(t, "the second's", hasSecond(), want)

		err := one.ReplaceExtensions(b.Ctx, id, []events.Extension{{Type: "tried"}, {Type: "refused"}})
		runtest.WantError(t, "replace by one that is refused", err, api.ErrProtocol)
		_, err = one.Actions(b.Ctx, id)
		runtest.WantError(t, "follow", err, nil)
		runtest.Equal(t, "the first's after a refusal", hasFirst(), want)
	}
	fork, err := one.CreateFrom(b.Ctx, id, api.CreateRequest{Start: api.StartExisting, From: id})
	runtest.WantError(t, "fork", err, nil)
	runtest.Equal(t, "the fork's", len(b.StateOf(fork.Session).Extensions), 2)
}

// TestExtensionsRefused has every reason for which a replacement of extensions is refused.
func TestExtensionsRefused(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	factory, _ := ofVersion("")
	b.Host = b.NewNode(b.Bus, factory).Host()
	id := b.Open(api.CreateRequest{})
	many := func(n, size int) (list []events.Extension) {
		for range n {
			list = append(list, events.Extension{Type: "x", Body: []byte(fmt.Sprintf("%0*d", size, 0)[:size-1] + "1")})
		}
		return list
	}
	at := b.LastSeq(id)
	for name, tc := range map[string]struct {
		list  []events.Extension
		field string
		limit string
	}{
		"type": {[]events.Extension{{Type: "x"}, {}}, "extensions[1].type", ""}, "body": {[]events.Extension{{Type: "x", Body: []byte("{")}}, "extensions[0].body", ""},
		"large": {[]events.Extension{{Type: "x", Body: []byte(`"` + string(make([]byte, 64<<10)) + `"`)}}, "extensions[0].body", ""},
		"many":  {many(65, 1), "", "extensions"},
	} {
		err := b.ReplaceExtensions(b.Ctx, id, tc.list)
		runtest.Equal(t, name, fieldOf(err), tc.field)
		limit := (*api.LimitError)(nil)
		runtest.Equal(t, name+": limit", errors.As(err, &limit) && limit.What == tc.limit, tc.limit != "")
	}
	runtest.Equal(t, "last sequence", b.LastSeq(id), at)
	runtest.WantError(t, "as many as there can be", b.ReplaceExtensions(b.Ctx, id, many(64, 1)), nil)
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, ""), nil)
	runtest.WantError(t, "replace in a closed one", b.ReplaceExtensions(b.Ctx, id, nil), api.ErrClosed)
}
